//! What no action reads or changes, by whatever name it is reached.

use super::*;

#[test]
fn what_is_denied_is_kept_by_what_it_is() {
    let mut scene = Scene::new("denied");
    scene.put("secrets/key", "k");
    scene.put("plain", "p");
    fs::hard_link(scene.root("secrets/key"), scene.root("alias")).unwrap();
    fs::hard_link(scene.outside("secret"), scene.root("hard")).unwrap();
    symlink("secrets", scene.root("elsewhere")).unwrap();
    let key = scene.root("secrets/key");
    scene.denied = vec![scene.root("elsewhere"), key, scene.root("absent"), scene.outside("secret")];
    for path in ["secrets/key", "alias", "secrets/new", "hard", "absent"] {
        for said in [scene.read(path), scene.write(path, "x"), scene.delete(path)] {
            refused(said, "lies in what [filesystem] deny keeps");
        }
    }
    refused(scene.list("secrets"), "lies in what [filesystem] deny keeps");
    assert_eq!(scene.read("plain"), done("p"));
    assert!(!scene.root("absent").exists());
    scene.denied = vec![scene.scratch.0.clone()];
    refused(scene.read("plain"), "lies in what [filesystem] deny keeps");
}

#[test]
fn a_second_name_of_what_lies_in_a_denied_directory_is_no_way_to_it() {
    let mut scene = Scene::new("links");
    scene.put("secrets/deep/key", "k");
    fs::hard_link(scene.root("secrets/deep/key"), scene.root("alias")).unwrap();
    scene.put("plain", "p");
    fs::hard_link(scene.root("plain"), scene.root("twice")).unwrap();
    assert_eq!(scene.read("alias"), done("k"), "nothing is denied");
    // What is denied by itself is known by itself, and what is not there holds nothing.
    scene.denied = vec![scene.outside("secret"), scene.root("absent"), scene.outside("secret/x")];
    assert_eq!(scene.read("twice"), done("p"));
    scene.denied.push(scene.root("secrets"));
    refused(scene.read("alias"), "has more than one name (hard links)");
    refused(scene.read("twice"), "has more than one name (hard links)");
    // Neither reads anything of the old content, nor takes another name of it away.
    assert_eq!(scene.write("alias", "new"), done("replaced 'alias' (3 bytes)\n"));
    assert_eq!(fs::read_to_string(scene.root("secrets/deep/key")).unwrap(), "k");
    assert_eq!(scene.read("alias"), done("new"), "it is a file of its own now");
    assert_eq!(scene.delete("twice"), done("deleted 'twice'\n"));
    assert_eq!(scene.read("plain"), done("p"));
}

#[test]
fn the_files_of_the_store_are_known_by_any_name() {
    let mut scene = Scene::new("store");
    fs::create_dir(scene.outside("state")).unwrap();
    fs::write(scene.outside("state/state.db"), "s").unwrap();
    fs::hard_link(scene.outside("state/state.db"), scene.root("alias")).unwrap();
    scene.put("plain", "p");
    fs::hard_link(scene.root("plain"), scene.root("twice")).unwrap();
    scene.guarded = vec![scene.outside("state"), scene.outside("none")];
    for said in [scene.read("alias"), scene.write("alias", "x"), scene.delete("alias")] {
        refused(said, "guardexec's policy leads to");
    }
    assert_eq!(scene.read("twice"), done("p"));
}

#[test]
fn what_the_policy_leads_to_is_kept_whether_it_is_there_or_not() {
    let mut scene = Scene::new("guarded");
    scene.put("policy.toml", "version = 1");
    scene.put("state/db", "x");
    scene.guarded = vec![scene.root("policy.toml"), scene.root("switch"), scene.root("state")];
    for path in ["policy.toml", "switch", "state/db", "state/new"] {
        for said in [scene.read(path), scene.write(path, "x"), scene.delete(path)] {
            refused(said, "guardexec's policy leads to");
        }
    }
    refused(scene.list("state"), "guardexec's policy leads to");
    assert_eq!(scene.names(), ["policy.toml", "state", "sub"]);
}

#[test]
fn what_makes_the_host_run_code_is_read_and_not_changed() {
    let scene = Scene::new("protected");
    scene.put(".git/config", "[core]\n\thooksPath = .husky\n[include]\n\tpath = ../more\n");
    scene.put("sub/.vscode/tasks.json", "{}");
    for path in [
        "bare.git/HEAD",
        "bare.git/config",
        "bare.git/objects/x",
        "bare.git/refs/x",
        "more",
        ".husky/pre-commit",
        "half/objects/x",
        "half/refs/x",
        "split/HEAD",
    ] {
        scene.put(path, "x");
    }
    for path in [
        ".git/config",
        ".git/hooks-new",
        "sub/.vscode/tasks.json",
        "sub/.envrc",
        ".bashrc",
        "bare.git/config",
        "bare.git/refs/x",
        "more",
        ".husky/pre-commit",
        ".husky/new",
    ] {
        refused(scene.write(path, "owned"), "make the host run code");
        refused(scene.delete(path), "make the host run code");
    }
    // What would make a repository of a directory.
    for path in ["half/HEAD", "split/commondir"] {
        refused(scene.write(path, "owned"), "make the host run code");
    }
    assert_eq!(scene.read("sub/.vscode/tasks.json"), done("{}"));
    assert_eq!(scene.read("more"), done("x"));
    assert_eq!(scene.write("sub/x", "y"), done("created 'sub/x' (1 bytes)\n"));
}
