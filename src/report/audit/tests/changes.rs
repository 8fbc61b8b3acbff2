//! Arbitrary text, arbitrary files, arbitrary changes.

use proptest::prelude::*;

use super::super::record::ErrorRecord;
use super::*;

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn any_text_in_any_field_gives_one_good_line(
        text in ".{0,40}", argv in proptest::collection::vec(any::<Vec<u8>>(), 0..4), kind in any::<String>()
    ) {
        let dir = Dir::new();
        let mut audit = Audit::open(&dir.log(), None).unwrap();
        let argv: Vec<&[u8]> = argv.iter().map(Vec::as_slice).collect();
        audit.append(&decision(&argv, &text)).unwrap();
        let error = ErrorRecord { kind, message: text.clone(), hint: Some(text.clone()), torn: None };
        audit.append(&Record { ts: SystemTime::now(), run_id: text.clone(), body: Body::Error(error) }).unwrap();
        let read = lines(&dir.log());
        prop_assert_eq!(read.len(), 2);
        prop_assert_eq!(read[0]["reason"].as_str().unwrap(), &text);
        prop_assert_eq!(read[1]["run_id"].as_str().unwrap(), &text);
        let raw = fs::read_to_string(dir.log()).unwrap();
        prop_assert!(raw.lines().all(|line| !line.chars().any(is_unsafe)));
        prop_assert_eq!(check(&[dir.log()]), None);
    }

    #[test]
    fn any_change_of_a_byte_is_found(
        at in any::<prop::sample::Index>(), byte in any::<u8>(), change in 0..3, torn in any::<bool>()
    ) {
        let dir = Dir::new();
        let (mut audit, _) = filled(&dir, 2);
        if torn {
            append_raw(&dir.log(), b"{\"ts\":\"20");
        }
        let last = audit.append(&simple("end")).unwrap();
        let good = fs::read(dir.log()).unwrap();
        let mut bad = good.clone();
        let at = at.index(good.len());
        match change {
            0 => bad[at] = byte,
            1 => bad.insert(at, byte),
            _ => drop(bad.remove(at)),
        }
        prop_assume!(bad != good);
        fs::write(dir.log(), &bad).unwrap();
        let report = verify(&[dir.log()], Some((last.seq, &last.hash)));
        prop_assert!(report.bad.is_some(), "{} at {}", change, at);
    }

    #[test]
    fn verify_and_append_take_any_file(bytes in any::<Vec<u8>>()) {
        let dir = Dir::new();
        drop(filled(&dir, 1));
        append_raw(&dir.log(), &bytes);
        let _ = verify(&[dir.log()], None);
        let mut audit = Audit::open(&dir.log(), None).unwrap();
        audit.append(&simple("x")).unwrap();
        prop_assert_eq!(audit.append(&simple("y")).unwrap().seq, if bytes.is_empty() { 3 } else { 4 });
    }
}
