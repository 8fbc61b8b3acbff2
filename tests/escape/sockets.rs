//! Listed Unix sockets (`[network] unix`): what is listed is reached, as the run's own user, and nothing else is.

use std::collections::BTreeMap;
use std::fs;
use std::io::{BufRead, BufReader};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use super::scene::{self, GROUNDS, Ground, STRICT, WORKSPACE};
use crate::harness::{Answer, As, Bench, Call, NOBODY, binary};

const PYTHON: &str = "/usr/bin/python3";

/// Who listens.
struct Server {
    child: Child,
    log: PathBuf,
}

impl Server {
    /// `NAME[:MODE[:KIND[:BACKLOG]]]` each; a relative name lies in the runs' working directory.
    fn new(bench: &Bench, sockets: &[&str]) -> Server {
        let program = bench.file("server.py", include_str!("server.py"));
        let log = bench.dir.join("server.log");
        let words = sockets.iter().map(|socket| {
            let mut parts: Vec<&str> = socket.split(':').collect();
            parts.extend(["777", "SOCK_STREAM", ""].iter().skip(parts.len() - 1));
            let name =
                if parts[0].starts_with('@') { PathBuf::from(parts[0]) } else { bench.work().join(parts[0]) };
            format!("{}:{}", name.display(), parts[1..].join(":"))
        });
        let mut command = Command::new(PYTHON);
        command.arg(program).arg(&log).args(words).env_clear().stdin(Stdio::null()).stdout(Stdio::piped());
        let mut child = command.spawn().expect("a server");
        let out = BufReader::new(child.stdout.take().expect("piped"));
        assert_eq!(out.lines().take(sockets.len()).map_while(Result::ok).count(), sockets.len());
        Server { child, log }
    }

    /// How often this one was reached.
    fn reached(&self, name: &str) -> usize {
        let log = fs::read_to_string(&self.log).unwrap_or_default();
        log.lines().filter(|line| Path::new(line).file_name().is_some_and(|last| last == name)).count()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A policy for the client that lists these names of the working directory.
fn listing(sandbox: &str, network: &str, names: &[&str]) -> String {
    let names: Vec<String> = names.iter().map(|name| format!("{:?}", format!("./work/{name}"))).collect();
    let rule = format!(
        "[[rule]]\nid = \"client\"\nprogram = {PYTHON:?}\ndecision = \"allow\"\nruns_arguments = true\n"
    );
    format!("{sandbox}[network]\n{network}unix = [{}]\n{rule}", names.join(", "))
}

/// Lets the client try these words, and returns what came of each.
#[track_caller]
fn client(call: Call<'_>, words: &[String]) -> (BTreeMap<String, String>, Answer) {
    let program = call.bench.file("work/client.py", include_str!("client.py"));
    let mut all = vec![PYTHON.to_owned(), program.display().to_string()];
    all.extend(words.iter().cloned());
    let answer = call.run(&all);
    let lines = answer.str("stdout").lines().filter_map(|line| line.split_once(' '));
    (lines.map(|(word, result)| (word.to_owned(), result.to_owned())).collect(), answer)
}

#[track_caller]
fn expect(call: Call<'_>, wanted: &[(String, &str)]) -> Answer {
    let words: Vec<String> = wanted.iter().map(|(word, _)| word.clone()).collect();
    let (results, answer) = client(call, &words);
    let given: Vec<_> =
        words.iter().map(|w| (w.clone(), results.get(w).map_or("no line", String::as_str))).collect();
    assert_eq!(given, wanted, "{}", answer.show());
    assert_eq!((answer.status(), &answer.json["survivors"]), ("ok", &0.into()), "{}", answer.show());
    answer
}

/// `NAME` of the working directory in a word for the client.
fn word(bench: &Bench, name: &str, arguments: &[&str]) -> String {
    let full = |argument: &&str| match argument.strip_suffix(".sock") {
        Some(_) if !argument.starts_with('.') => bench.work().join(argument).display().to_string(),
        _ => (*argument).to_owned(),
    };
    [name.to_owned()].into_iter().chain(arguments.iter().map(full)).collect::<Vec<_>>().join(":")
}

as_both! {
    fn a_listed_socket_is_reached_as_the_runs_own_user(bench) {
        let _server = Server::new(bench, &["listed.sock", "packets.sock:777:SOCK_SEQPACKET"]);
        for ground in GROUNDS {
            for sandbox in [STRICT, WORKSPACE] {
                let call = ground.call(bench, &listing(sandbox, "", &["listed.sock", "packets.sock"]));
                // What every C library tries of its own accord is refused, and held against nobody.
                let habit = "connect:/var/run/nscd/socket".to_owned();
                let words = [word(bench, "connect", &["listed.sock"]), word(bench, "seqpacket", &["packets.sock"]), habit];
                let (results, answer) = client(call, &words);
                let (first, second) = (&results[&words[0]], &results[&words[1]]);
                assert_eq!(results[&words[2]], "EACCES", "{ground:?} {}", answer.show());
                assert!(first.starts_with("listed.sock ") && second.starts_with("packets.sock "), "{ground:?} {}", answer.show());
                // The peer is told the number that the run has.
                let identity = answer.json["sandbox"]["enforced"]["identity"].as_str().expect("an identity");
                let uid = identity.strip_prefix("uid ").map_or(NOBODY.to_string(), |rest| rest.split([',', ' ']).next().expect("a number").to_owned());
                assert_eq!(first.split(' ').nth(1), Some(uid.as_str()), "{ground:?} {}", answer.show());
                assert!(bench.who == As::User || sandbox == WORKSPACE || uid != "0", "{}", answer.show());
                let network = answer.json["sandbox"]["enforced"]["network"].as_str().expect("the layer");
                assert!(network.contains("listed Unix sockets"), "{}", answer.show());
                assert!(answer.json["violations"].as_array().is_some_and(Vec::is_empty), "{}", answer.show());
            }
        }
    }
}

as_both! {
    fn nothing_else_is_reached(bench) {
        let name = format!("guardexec-test-{}-{:?}", std::process::id(), bench.who);
        let server = Server::new(bench, &["listed.sock", "other.sock", &format!("@{name}")]);
        symlink("other.sock", bench.work().join("link.sock")).expect("a link");
        let listed = bench.work().join("listed.sock").display().to_string();
        let mut wanted = vec![
            (word(bench, "connect", &["other.sock"]), "EACCES"),
            (word(bench, "connect", &["link.sock"]), "EACCES"),
            (word(bench, "connect", &["listed.sock.more.sock"]), "EACCES"),
            (word(bench, "connect", &["./other.sock"]), "EACCES"),
            // A list is compared byte by byte: other spellings of a listed one are not it.
            (word(bench, "connect", &["./listed.sock"]), "EACCES"),
            (format!("connect:{}", listed.replace("/work/", "//work/")), "EACCES"),
            (format!("connect:{listed}/"), "EACCES"),
            (format!("abstract:{name}"), "EACCES"),
            (format!("abstract:{listed}"), "EACCES"),
            // The kernel reads a path to its first NUL.
            (word(bench, "nul", &["other.sock", "listed.sock"]), "EACCES"),
            (word(bench, "long", &["listed.sock"]), "EACCES"),
            (word(bench, "longer", &["listed.sock"]), "EINVAL"),
            (word(bench, "short", &["listed.sock"]), "EINVAL"),
            (word(bench, "negative", &["listed.sock"]), "EINVAL"),
            (word(bench, "alien", &["listed.sock"]), "EINVAL"),
            (word(bench, "dgram", &["listed.sock"]), "EACCES"),
            (word(bench, "raw", &["listed.sock"]), "EACCES"),
            (word(bench, "bind", &["new.sock"]), "EACCES"),
            ("bindabstract:guardexec-test-bound".to_owned(), "EACCES"),
            ("inet".to_owned(), "EACCES"),
        ];
        for kind in ["SOCK_STREAM", "SOCK_SEQPACKET"] {
            // By sendmsg, which the filter cannot look into: the kernel itself sends nothing.
            let errno = if kind == "SOCK_STREAM" { "ENOTSUP" } else { "ENOTCONN" };
            wanted.push((word(bench, "sendto", &["listed.sock", "other.sock", "no", kind]), errno));
        }
        wanted.push((word(bench, "sendto", &["listed.sock", "other.sock", "yes", "SOCK_STREAM"]), "EISCONN"));
        for ground in GROUNDS {
            for sandbox in [STRICT, WORKSPACE] {
                let answer = expect(ground.call(bench, &listing(sandbox, "", &["listed.sock"])), &wanted);
                let refused = answer.json["violations"].as_array().expect("a list");
                assert!(refused.iter().any(|v| v["operation"] == "connect" && v["target"] == bench.work().join("other.sock").display().to_string()), "{}", answer.show());
                assert!(refused.iter().any(|v| v["target"] == format!("@{name}")) && refused.len() <= 8, "{}", answer.show());
            }
        }
        assert_eq!((server.reached("other.sock"), server.reached(&format!("@{name}"))), (0, 0));
        // Without confinement they are there to be reached.
        let off = listing(scene::OFF, "", &[]).replace("[network]\nunix = []\n", "");
        let words = [word(bench, "connect", &["other.sock"]), format!("abstract:{name}"), word(bench, "connect", &["./other.sock"])];
        let (results, answer) = client(bench.policy(&off), &words);
        assert!(results.values().all(|result| result.contains(' ')), "{}", answer.show());
        assert_eq!(server.reached("other.sock"), 2);
    }
}

as_both! {
    fn an_address_that_changes_while_it_is_judged_leads_nowhere_else(bench) {
        let server = Server::new(bench, &["listed.sock", "other.sock"]);
        let limits = "[limits]\nwall_time = \"140s\"\ncpu_time = \"none\"\n";
        let toml = format!("{limits}{}{}", listing(STRICT, "", &["listed.sock"]), scene::rule());
        let attack = word(bench, "unixrace", &["listed.sock", "other.sock", "10000"]);
        let mut call = bench.policy(&toml);
        call.limit = Duration::from_secs(150);
        let (outcomes, answer) = scene::attempt_by(call, std::slice::from_ref(&attack));
        assert_eq!(outcomes[&attack], "open", "it is reached now and then {}", answer.show());
        assert!(server.reached("listed.sock") > 0);
        assert_eq!(server.reached("other.sock"), 0, "{}", answer.show());
    }
}

as_both! {
    fn what_the_run_puts_in_its_place_is_not_the_listed_socket(bench) {
        for (thing, errno) in [("swap", "ECONNREFUSED"), ("link", "ECONNREFUSED")] {
            for ground in GROUNDS {
                let server = Server::new(bench, &["listed.sock", "other.sock"]);
                let wanted = [
                    (word(bench, "connect", &["./other.sock"]), "EACCES"),
                    (word(bench, thing, &["listed.sock", "other.sock"]), errno),
                ];
                expect(ground.call(bench, &listing(WORKSPACE, "", &["listed.sock"])), &wanted);
                assert_eq!(server.reached("other.sock"), 0);
                let all = fs::read_dir(bench.work()).expect("list").flatten();
                all.filter(|e| e.file_name().to_string_lossy().contains(".sock")).for_each(|e| fs::remove_file(e.path()).expect("remove"));
            }
        }
    }
}

as_both! {
    fn links_that_an_earlier_run_may_have_made_are_not_followed(bench) {
        let server = Server::new(bench, &["other.sock"]);
        symlink("other.sock", bench.work().join("listed.sock")).expect("a link");
        let words = [word(bench, "connect", &["listed.sock"]), word(bench, "connect", &["other.sock"])];
        let (results, answer) = client(bench.policy(&listing(WORKSPACE, "", &["listed.sock"])), &words);
        assert!(results.values().all(|result| result == "EACCES") && results.len() == 2, "{}", answer.show());
        assert!(answer.json["warnings"].to_string().contains("links lead there, from where the run may write"), "{}", answer.show());
        assert_eq!(server.reached("other.sock"), 0);
        // Where the run cannot write, a link is the policy's own, and both names are listed.
        let (results, answer) = client(bench.policy(&listing(STRICT, "", &["listed.sock"])), &words);
        assert!(results.values().all(|result| result.starts_with("other.sock ")) && results.len() == 2, "{}", answer.show());
    }
}

as_both! {
    fn the_runs_user_has_to_have_the_right(bench) {
        fs::create_dir(bench.work().join("closed")).expect("mkdir");
        let server = Server::new(bench, &["mine.sock:600", "closed/in.sock", "listed.sock"]);
        fs::set_permissions(bench.work().join("closed"), fs::Permissions::from_mode(0o700)).expect("chmod");
        for ground in GROUNDS {
            // Root's run is an ordinary user too.
            expect(ground.call(bench, &listing(STRICT, "", &["mine.sock", "closed/in.sock"])), &[
                (word(bench, "connect", &["mine.sock"]), "EACCES"),
                (word(bench, "connect", &["closed/in.sock"]), "EACCES"),
            ]);
        }
        assert_eq!((server.reached("mine.sock"), server.reached("in.sock")), (0, 0));
    }
}

as_both! {
    fn what_is_denied_or_not_there_is_said(bench) {
        let server = Server::new(bench, &["listed.sock"]);
        bench.file("work/plain.sock", "no socket");
        let toml = listing(STRICT, "", &["absent.sock", "plain.sock"]);
        let answer = expect(bench.policy(&toml), &[
            (word(bench, "connect", &["absent.sock"]), "ENOENT"),
            (word(bench, "connect", &["plain.sock"]), "ECONNREFUSED"),
        ]);
        let warnings = answer.json["warnings"].to_string();
        assert!(warnings.contains("absent.sock: No such file") && warnings.contains("plain.sock: it is no socket"), "{}", answer.show());
        let toml = listing(STRICT, "", &["listed.sock"]) + "[filesystem]\ndeny = [\"./work/listed.sock\"]\n";
        let answer = expect(bench.policy(&toml), &[(word(bench, "connect", &["listed.sock"]), "EACCES")]);
        assert!(answer.json["warnings"].to_string().contains("[filesystem] deny names it"), "{}", answer.show());
        assert_eq!(server.reached("listed.sock"), 0);
    }
}

as_both! {
    fn a_full_queue_holds_up_its_own_caller_alone(bench) {
        let _server = Server::new(bench, &["slow.sock:777:SOCK_STREAM:2", "listed.sock"]);
        let words = [word(bench, "full", &["slow.sock", "listed.sock"])];
        for ground in [Ground::Namespaces, Ground::Groups] {
            let (results, answer) = client(ground.call(bench, &listing(STRICT, "", &["slow.sock", "listed.sock"])), &words);
            assert!(results[&words[0]].starts_with("EAGAIN True listed.sock "), "{}", answer.show());
            // Those that wait in connect die with the run.
            let toml = listing(STRICT, "", &["slow.sock"]) + "[limits]\nwall_time = \"2s\"\n";
            let (_, answer) = client(ground.call(bench, &toml), &[word(bench, "wait", &["slow.sock"])]);
            assert_eq!((answer.status(), answer.exit), ("timeout", 124), "{}", answer.show());
            assert!(answer.str("stdout").contains("waiting") && answer.took < Duration::from_secs(20), "{}", answer.show());
        }
    }
}

as_both! {
    fn many_callers_at_once_and_callers_with_signals_are_served(bench) {
        let _server = Server::new(bench, &["listed.sock"]);
        let words = [word(bench, "many", &["listed.sock", "150"]), word(bench, "signals", &["listed.sock", "100"])];
        let (results, answer) = client(bench.policy(&listing(STRICT, "", &["listed.sock"])), &words);
        assert!(results[&words[0]].starts_with("150 ['listed.sock ") && !results[&words[0]].contains(", "), "{}", answer.show());
        assert!(results[&words[1]].starts_with("['listed.sock ") && !results[&words[1]].contains(", "), "{}", answer.show());
    }
}

as_both! {
    fn it_is_the_runs_own_socket_that_is_connected(bench) {
        let _server = Server::new(bench, &["listed.sock"]);
        let words = [word(bench, "options", &["listed.sock"]), word(bench, "nul", &["listed.sock", "junk"]), word(bench, "thread", &["listed.sock"])];
        let (results, answer) = client(bench.policy(&listing(STRICT, "", &["listed.sock"])), &words);
        assert!(results[&words[0]].starts_with("1 listed.sock "), "{}", answer.show());
        assert!(results[&words[1]].starts_with("listed.sock "), "{}", answer.show());
        // A thread whose process has lost its first one: where the kernel can name it.
        let last = &results[&words[2]];
        assert!(last.starts_with("listed.sock ") || last == "EACCES", "{}", answer.show());
    }
}

as_both! {
    fn beside_the_internet_all_else_works_as_before(bench) {
        let server = Server::new(bench, &["listed.sock", "other.sock"]);
        let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("bind");
        let port = listener.local_addr().expect("address").port();
        std::thread::spawn(move || {
            for peer in listener.incoming().flatten() {
                let _ = std::io::Write::write_all(&mut &peer, b"tcp");
            }
        });
        let internet = [
            ("serve".to_owned(), "served"),
            ("udp".to_owned(), "datagram"),
        ];
        let unix = [
            (word(bench, "connect", &["other.sock"]), "EACCES"),
            (word(bench, "bind", &["new.sock"]), "EACCES"),
            ("bindabstract:guardexec-test-bound".to_owned(), "EACCES"),
            (word(bench, "dgram", &["listed.sock"]), "EACCES"),
            (word(bench, "sendto", &["listed.sock", "other.sock", "yes", "SOCK_STREAM"]), "EISCONN"),
            (word(bench, "sendto", &["listed.sock", "other.sock", "no", "SOCK_STREAM"]), "ENOTSUP"),
        ];
        let host = [(format!("tcp:{port}"), "tcp"), (format!("tcpnb:{port}"), "EINPROGRESS tcp")];
        for ground in GROUNDS {
            let wanted: Vec<_> = unix.iter().chain(&internet).chain(&host).cloned().collect();
            let answer = expect(ground.call(bench, &listing(STRICT, "mode = \"host\"\n", &["listed.sock"])), &wanted);
            assert!(answer.json["sandbox"]["enforced"]["network"].as_str().is_some_and(|n| n.contains("IPv6 and listed")), "{}", answer.show());
        }
        // In a network namespace of the run's own the socket is still the host's, and its ports are not.
        let words = [word(bench, "connect", &["listed.sock"]), "serve".to_owned(), word(bench, "connect", &["other.sock"]), format!("tcp:{port}")];
        let (results, answer) = client(bench.policy(&listing(STRICT, "loopback = true\n", &["listed.sock"])), &words);
        assert!(results[&words[0]].starts_with("listed.sock "), "{}", answer.show());
        assert_eq!([&results[&words[1]], &results[&words[2]], &results[&words[3]]], ["served", "EACCES", "ECONNREFUSED"], "{}", answer.show());
        assert_eq!(server.reached("other.sock"), 0);
    }
}

as_both! {
    fn under_host_a_list_narrows(bench) {
        let server = Server::new(bench, &["listed.sock", "other.sock"]);
        let words = [word(bench, "connect", &["listed.sock"]), word(bench, "connect", &["other.sock"])];
        let (results, answer) = client(bench.policy(&listing(scene::OFF, "", &["listed.sock"])), &words);
        // The run keeps its user, and whoever connects for it.
        let uid = if bench.who == As::Root { 0 } else { NOBODY };
        assert_eq!(results[&words[0]], format!("listed.sock {uid} {uid}"), "{}", answer.show());
        assert_eq!((results[&words[1]].as_str(), server.reached("other.sock")), ("EACCES", 0), "{}", answer.show());
    }
}

as_both! {
    fn where_the_guard_cannot_be_asked_there_are_none(bench) {
        let server = Server::new(bench, &["listed.sock"]);
        for (taken, words) in [("listening", "asks the guard"), ("taking", "CAP_SYS_PTRACE")] {
            let toml = listing(STRICT, "", &["listed.sock"]);
            let (_, answer) = client(bench.policy(&toml).wrap(scene::without(taken)), &[]);
            scene::unavailable(&answer, &["network", "[network] unix", words]);
            let explained = bench.policy(&toml).wrap(scene::without(taken)).opt(["explain", "--", PYTHON, "x"]).raw();
            assert_eq!(explained.exit, 125, "{}", explained.stderr);
            let doctor = bench.call().wrap(scene::without(taken)).opt(["doctor", "--json"]).raw();
            let row = doctor.json.as_array().expect("an array").iter().find(|row| row["mechanism"] == "unix_sockets").expect("its line").clone();
            assert!(row["works"] == false && row["errno"].is_i64() && row["remedy"].is_string(), "{row}");
            assert_eq!(doctor.exit, 0, "strict does not need it");
            // Not required: none at all, which is said.
            let toml = toml.replacen("[sandbox]\n", "[sandbox]\nrequire = [\"filesystem\"]\n", 1);
            let wanted = [(word(bench, "connect", &["listed.sock"]), "EACCES")];
            let answer = expect(bench.policy(&toml).wrap(scene::without(taken)), &wanted);
            assert!(answer.json["sandbox"]["missing"].to_string().contains("network"), "{}", answer.show());
            assert!(answer.json["warnings"].to_string().contains("[network] unix"), "{}", answer.show());
        }
        assert_eq!(server.reached("listed.sock"), 0);
        let doctor = bench.call().opt(["doctor", "--json"]).raw();
        let row = doctor.json.as_array().expect("an array").iter().find(|row| row["mechanism"] == "unix_sockets").expect("its line").clone();
        assert!(row["works"] == true && row["layers"][0] == "network", "{row}");
    }
}

as_both! {
    fn a_run_inside_such_a_run_gets_no_list_of_its_own(bench) {
        let server = Server::new(bench, &["listed.sock", "other.sock"]);
        let guard = binary().display().to_string();
        let inner = bench.file("work/inner.toml", format!("version = 1\n{}", listing(STRICT, "", &["other.sock"]).replace("./work/", "./")));
        let plain = bench.file("work/plain.toml", format!("version = 1\nallow = [\"echo\"]\n{STRICT}"));
        let toml = format!("{}[[rule]]\nid = \"g\"\nprogram = {guard:?}\ndecision = \"allow\"\n", listing(WORKSPACE, "", &["listed.sock"]));
        bench.file("work/client.py", include_str!("client.py"));
        for ground in [Ground::Namespaces, Ground::Groups] {
            let connect = word(bench, "connect", &["other.sock"]);
            let answer = ground.call(bench, &toml).run([&guard, "-p", inner.to_str().expect("UTF-8"), "--", PYTHON, "client.py", &connect]);
            let said: serde_json::Value = serde_json::from_str(answer.str("stdout")).expect("a result");
            assert_eq!((said["status"].as_str(), said["exit_status"].as_i64()), (Some("error"), Some(125)), "{ground:?} {said:#}");
            assert!(said["text"].as_str().is_some_and(|text| text.contains("[network] unix")), "{said:#}");
            let answer = ground.call(bench, &toml).run([&guard, "-p", plain.to_str().expect("UTF-8"), "--output", "text", "--", "echo", "hi"]);
            assert_eq!(answer.str("stdout").trim_end(), "hi", "{ground:?} {}", answer.show());
        }
        assert_eq!(server.reached("other.sock"), 0);
    }
}
