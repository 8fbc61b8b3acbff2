//! How many may wait, and what is filed of an answer that was given at once.

use super::*;
use crate::decision::Facts;

#[test]
fn an_agent_cannot_flood_the_queue_and_its_children_are_its_own() {
    let desk = Desk::new();
    let numbered = |agent: Option<&str>, number: usize| {
        let mut request = asking(["sh".to_owned(), number.to_string()]);
        request.asker.agent = agent.map(Into::into);
        request
    };
    let file = |agent, number| desk.file_in(&mut desk.store(), numbered(agent, number), TERMS);
    for (number, agent) in ["lead", "lead/a", "lead/b/c"].into_iter().enumerate() {
        file(Some(agent), number).unwrap();
    }
    let denial = file(Some("lead/d"), 9).unwrap_err();
    assert_eq!(denial.code, "approval_too_many");
    assert_eq!(denial.message, "agent 'lead' cannot have more than 3 requests that wait for an answer");
    file(Some("leader"), 9).unwrap();
    file(None, 9).unwrap();
    let shared = file(Some("lead"), 0).unwrap();
    assert!(!shared.fresh, "what waits already is no more");
    desk.answer(&shared.id, false, None).unwrap();
    file(Some("lead/d"), 9).unwrap();
}

#[test]
fn names_that_are_only_claimed_cannot_flood_it_either() {
    let desk = Desk::new();
    let claimed = |agent: &str, number: usize| {
        let mut request = asking(["sh".to_owned(), number.to_string()]);
        request.asker.agent = Some(agent.into());
        desk.file_in(&mut desk.store(), request, TERMS)
    };
    for number in 0..12 {
        claimed(&format!("new{}", number / 2), number).unwrap();
    }
    let denial = claimed("another", 12).unwrap_err();
    assert_eq!(
        (denial.code, denial.message.as_str()),
        (
            "approval_too_many",
            "agents whose names GUARDEXEC_AGENT does not say cannot together have more than 12 requests that wait for an answer"
        )
    );
    // One that is proven does not count with them, also where others claim its name.
    let proven = |agent: &str, number| desk.proven(agent, number);
    for number in 100..103 {
        proven("lead/child", number).unwrap();
    }
    assert_eq!(code(proven("lead", 103)), "approval_too_many");
    for number in [104, 105, 107] {
        proven("new0", number).unwrap();
    }
    assert_eq!(code(proven("new0", 108)), "approval_too_many");
    assert_eq!(code(claimed("lead", 106)), "approval_too_many");
}

impl Desk {
    /// Files under a name that `$GUARDEXEC_AGENT` says.
    fn proven(&self, agent: &str, number: usize) -> Result<Filed, Box<Denial>> {
        let mut request = asking(["sh".to_owned(), number.to_string()]);
        request.asker.agent = Some(agent.into());
        let facts = Facts { agent: agent.split('/').next().map(str::to_owned), ..self.scene.facts.clone() };
        let kept = Kept::of(&request, &facts, &self.scene.policy);
        let bound = self.scene.bound(request);
        let by = person("bob");
        let filing = Filing { bound: &bound, kept, terms: TERMS, by: &by };
        self.store().attempt(|tx, now| file(tx, now, filing)).unwrap()
    }
}

#[test]
fn nor_can_names_that_the_asker_puts_into_the_environment_itself() {
    let desk = Desk::new();
    for number in 0..48 {
        desk.proven(&format!("new{}", number / 2), number).unwrap();
    }
    let denial = desk.proven("another", 48).unwrap_err();
    assert_eq!(denial.code, "approval_too_many");
    assert_eq!(
        denial.message,
        "all agents together, whatever their names, cannot have more than 48 requests that wait for an answer"
    );
    assert_eq!(
        denial.hint.as_deref(),
        Some(
            "wait until a person has answered some (guardexec approvals list), and see to it that no agent sets \
             GUARDEXEC_AGENT itself"
        )
    );
}

#[test]
fn an_answer_that_was_given_at_once_is_kept_and_opens_nothing() {
    let desk = Desk::new();
    desk.scene.file("s.sh", "echo\n");
    let bound = desk.scene.bound(request());
    let by = Answerer { person: person("bob"), program: Some("/opt/confirm".into()) };
    let here = person("bob");
    let keep = |approved, used_by| {
        let answer = AtOnce {
            bound: &bound,
            approved,
            by: &by,
            said: Some("so"),
            used_by,
            asked_by: &here,
            proven: false,
        };
        desk.store().transaction(|tx, now| keep_answer(tx, now, &answer)).unwrap()
    };
    let (yes, no, output) = (keep(true, None), keep(false, None), keep(true, Some("run-1")));
    for (id, state) in [(&yes, State::Expired), (&no, State::Declined), (&output, State::Consumed)] {
        let entry = desk.entry(id);
        assert_eq!((entry.state, entry.kept.is_none()), (state, true));
        assert_eq!(entry.answered.as_ref().unwrap().by, by);
        assert!(desk.consume(id, request()).is_err() && desk.answer(id, true, None).is_err());
        let record = crate::approval::document::record(&entry, false);
        assert_eq!(
            (&record["answer"]["by"]["program"], &record["answer"]["text"]),
            (&"/opt/confirm".into(), &"so".into())
        );
    }
    assert!(desk.file(request()).fresh, "nobody shares it");
    desk.store().transaction(|tx, now| use_answer(tx, now, &yes, "run-2")).unwrap();
    assert_eq!(
        (desk.entry(&yes).state, desk.entry(&yes).used.unwrap().1.as_str()),
        (State::Consumed, "run-2")
    );
    for id in [&yes, &no, &output] {
        assert!(desk.store().transaction(|tx, now| use_answer(tx, now, id, "run-3")).is_err(), "once");
    }
}
