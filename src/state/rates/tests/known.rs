//! By what a policy is known: no other path to it begins its counts afresh.

use super::*;
use crate::state::tests::load_policy;

#[test]
fn another_path_to_the_policy_is_no_fresh_start() {
    let mut b = Bench::new(&rate("count = 3\nper = \"1h\""));
    let (path, link) = (b.dir.outer().join("policy.toml"), b.dir.outer().join("link.toml"));
    std::fs::hard_link(&path, &link).unwrap();
    let by = |b: &mut Bench, path: &std::path::Path| {
        b.policies = vec![load_policy(path)];
        (b.call(&ls()), b.held()[0]["use"].as_u64().unwrap())
    };
    assert_eq!(by(&mut b, &path), (vec![Allow], 1));
    assert_eq!(by(&mut b, &link), (vec![Allow], 2));
    // Both at once are one policy.
    b.policies.insert(0, load_policy(&path));
    assert_eq!((b.call(&ls()), b.held()[0]["use"].as_u64()), (vec![Allow], Some(3)));
    assert_eq!((by(&mut b, &path), by(&mut b, &link)), ((vec![Deny], 3), (vec![Deny], 3)));
    // Edited as editors do it, by another file under the same name, it goes on with what was counted by its own; the
    // other name has the old file, and that one's count.
    let new = b.dir.outer().join("new.toml");
    std::fs::copy(&path, &new).unwrap();
    std::fs::rename(&new, &path).unwrap();
    assert_eq!((by(&mut b, &path), by(&mut b, &link)), ((vec![Allow], 3), (vec![Deny], 3)));
}

#[test]
fn a_policy_is_known_by_its_place_in_whatever_path_its_directory_has() {
    // As a mount of the directory elsewhere: another path to the same directory, and a file that was replaced in it.
    let mut b = Bench::new(&rate("count = 2\nper = \"1h\""));
    assert_eq!(b.call(&ls()), [Allow]);
    let moved = b.dir.outer().join("moved");
    std::fs::create_dir(&moved).unwrap();
    let first = policy_named(&b.dir, "moved/p.toml", &format!("{TOOLS}{}", rate("count = 2\nper = \"1h\"")));
    b.policies = vec![first];
    assert_eq!(b.call(&ls()), [Allow]);
    let elsewhere = b.dir.outer().join("elsewhere");
    std::fs::rename(&moved, &elsewhere).unwrap();
    std::fs::copy(elsewhere.join("p.toml"), elsewhere.join("new")).unwrap();
    std::fs::rename(elsewhere.join("new"), elsewhere.join("p.toml")).unwrap();
    b.policies = vec![load_policy(&elsewhere.join("p.toml"))];
    assert_eq!(b.held()[0]["use"], 1);
    assert_eq!((b.call(&ls()), b.call(&ls())), (vec![Allow], vec![Deny]));
}
