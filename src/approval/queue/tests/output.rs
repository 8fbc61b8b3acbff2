//! Outputs: had once, by one; and gone with the answer, the use and the time.

use super::*;
use crate::approval::withheld::Withheld;
use crate::policy::model::Policy;

const SECRET: &str = "s3cret-of-the-run";

fn withheld(run_id: &str) -> Withheld {
    let result =
        serde_json::json!({"run_id": run_id, "status": "ok", "exit_code": 0, "stdout": SECRET, "stderr": ""});
    Withheld::of(Some(result.to_string()), &["shell".into()]).unwrap()
}

impl Desk {
    fn put_away(&self, store: &mut Store, run_id: &str) -> Filed {
        let Withheld { output, result, .. } = withheld(run_id);
        let kept = Kept::of(&request(), &self.scene.facts, &self.scene.policy).with_result(result);
        let bound = self.scene.bound(request()).of_output(output, Vec::new(), &self.scene.policy);
        let by = person("bob");
        let filing = Filing { bound: &bound, kept, terms: TERMS, by: &by };
        store.attempt(|tx, now| file(tx, now, filing)).unwrap().unwrap()
    }

    fn have(&self, store: &mut Store, id: &str, policies: &[Policy]) -> Result<State, Box<Denial>> {
        store
            .attempt(|tx, now| match check_output(tx, now, id, policies)? {
                Ok(entry) if entry.state == State::Approved => {
                    hand_out(tx, now, &entry, "run-2").map(|()| Ok(entry.state))
                }
                Ok(entry) => Ok(Ok(entry.state)),
                Err(denial) => Ok(Err(denial)),
            })
            .unwrap()
    }

    fn holds(&self) -> bool {
        let bytes = std::fs::read(self.database()).unwrap();
        bytes.windows(SECRET.len()).any(|part| part == SECRET.as_bytes())
    }
}

#[test]
fn it_waits_and_is_had_once() {
    let desk = Desk::new();
    let policies = &desk.scene.policy;
    let filed = desk.put_away(&mut desk.store(), "R1");
    assert!(filed.fresh && filed.output, "{filed:?}");
    assert!(filed.hint().contains(&format!("--approval {} and no command", filed.id)), "{}", filed.hint());
    assert!(filed.hint().starts_with("it did run, do not run it again"), "{}", filed.hint());
    // The same output of another run is another output.
    assert_ne!(desk.put_away(&mut desk.store(), "R2").id, filed.id);
    assert_eq!(desk.have(&mut desk.store(), &filed.id, policies).unwrap(), State::Pending);
    let answered = desk.answer(&filed.id, true, None).unwrap();
    assert_eq!(answered.kept.as_ref().unwrap().result(), Some(withheld("R1").result.as_str()));
    assert_eq!(answered.output.unwrap().stdout, SECRET.as_bytes());
    assert_eq!(code(desk.consume(&filed.id, request())), "approval_mismatch", "it runs nothing");
    assert_eq!(desk.have(&mut desk.store(), &filed.id, policies).unwrap(), State::Approved);
    let denial = desk.have(&mut desk.store(), &filed.id, policies).unwrap_err();
    assert_eq!(denial.code, "approval_consumed");
    assert!(denial.hint.unwrap().starts_with("its output was handed out then"));
    assert_eq!(desk.entry(&filed.id).used.unwrap().1, "run-2");
}

#[test]
fn only_an_output_is_one() {
    let desk = Desk::new();
    let id = desk.file(request()).id;
    desk.answer(&id, true, None).unwrap();
    assert_eq!(code(desk.have(&mut desk.store(), &id, &desk.scene.policy)), "approval_mismatch");
    assert_eq!(code(desk.have(&mut desk.store(), "0000000000aa", &desk.scene.policy)), "approval_unknown");
    let id = desk.put_away(&mut desk.store(), "R").id;
    assert_eq!(code(desk.have(&mut desk.store(), &id, &[])), "approval_stale", "under no policy, or another");
}

#[test]
fn it_is_gone_when_it_is_over() {
    for end in ["decline", "have", "expire"] {
        let desk = Desk::new();
        let id = desk.put_away(&mut desk.at(0), "R").id;
        assert!(desk.holds(), "{end}");
        let by = person("amy");
        let verdict = |approved| Verdict { approved, by: &by, said: None, edit: None };
        let refused = match end {
            "decline" => {
                desk.at(1).attempt(|tx, now| answer(tx, now, &id, verdict(false))).unwrap().unwrap();
                "approval_declined"
            }
            "have" => {
                desk.at(1).attempt(|tx, now| answer(tx, now, &id, verdict(true))).unwrap().unwrap();
                assert!(desk.holds(), "approved and not used");
                assert_eq!(desk.have(&mut desk.at(1), &id, &desk.scene.policy).unwrap(), State::Approved);
                "approval_consumed"
            }
            _ => {
                desk.at(700).transaction(approvals::expire).unwrap();
                "approval_expired"
            }
        };
        assert!(!desk.holds(), "{end}");
        let denial = desk.have(&mut desk.at(701), &id, &desk.scene.policy).unwrap_err();
        assert_eq!(denial.code, refused);
        assert!(!denial.hint.unwrap().contains("ask again"), "it must not be run again");
        let entry = desk.at(701).transaction(|tx, now| find(tx, now, &id)).unwrap().unwrap();
        assert!(entry.output.is_none() && entry.bound.output.is_some());
    }
}

#[test]
fn many_are_read_without_what_is_kept_of_them() {
    let desk = Desk::new();
    desk.put_away(&mut desk.store(), "R");
    let rows = desk.store().transaction(|tx, now| approvals::page(tx, now, true, 0)).unwrap();
    assert!(rows.len() == 1 && rows[0].1.private.is_none());
}
