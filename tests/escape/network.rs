//! Ways to talk to somebody: everything that carries bytes out of a run but its own pipes.

use std::fs;
use std::net::TcpListener;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{SocketAddr, UnixDatagram, UnixListener};
use std::path::PathBuf;

use super::scene::{self, STRICT, WORKSPACE, caught, refused};
use crate::harness::Bench;

const HOST_NETWORK: &str = "[sandbox]\nprofile = \"strict\"\n[network]\nmode = \"host\"\n";

/// A socket that everyone may connect to, where any run can see it.
fn listener(bench: &Bench, name: &str) -> (UnixListener, UnixDatagram, PathBuf, PathBuf) {
    let (path, datagrams) = (bench.work().join(name), bench.work().join(format!("{name}-datagrams")));
    let listener = UnixListener::bind(&path).expect("bind");
    let receiver = UnixDatagram::bind(&datagrams).expect("bind");
    for made in [&path, &datagrams] {
        fs::set_permissions(made, fs::Permissions::from_mode(0o777)).expect("chmod");
    }
    listener.set_nonblocking(true).expect("nonblocking");
    receiver.set_nonblocking(true).expect("nonblocking");
    (listener, receiver, path, datagrams)
}

/// Counts what arrived.
fn arrived(listener: &UnixListener, receiver: &UnixDatagram) -> usize {
    let connections = std::iter::from_fn(|| listener.accept().ok()).count();
    connections + std::iter::from_fn(|| receiver.recv(&mut [0; 8]).ok()).count()
}

as_both! {
    fn t3_92_daemon_sockets_are_out_of_reach(bench) {
        let (listener, receiver, path, datagrams) = listener(bench, "daemon.sock");
        let stream = format!("unix:{}", path.display());
        let (path, _) = (datagrams.display().to_string(), ());
        let mut attacks = vec![stream];
        for name in ["unixdgram", "pairsendto", "pairsendmsg", "pairsendmmsg", "pairconnect", "pairraw"] {
            attacks.push(format!("{name}:{path}"));
        }
        for toml in [STRICT, WORKSPACE, HOST_NETWORK] {
            caught(bench, toml, &attacks, &[], || {
                arrived(&listener, &receiver);
            });
            assert_eq!(arrived(&listener, &receiver), 0, "{toml}");
        }
    }
}

as_both! {
    fn t3_94_abstract_sockets_are_out_of_reach(bench) {
        let name = format!("guardexec-test-{}-{:?}", std::process::id(), bench.who);
        let address = SocketAddr::from_abstract_name(&name).expect("a name");
        let _listener = UnixListener::bind_addr(&address).expect("bind");
        for toml in [STRICT, WORKSPACE, HOST_NETWORK] {
            refused(bench, toml, &[&format!("abstract:{name}")], &[]);
        }
    }
}

as_both! {
    fn no_socket_of_any_family_under_none(bench) {
        let listener = TcpListener::bind("127.0.0.1:0").expect("bind");
        let port = listener.local_addr().expect("address").port();
        let to = |name: &str| format!("{name}:{port}");
        let attacks = [
            to("tcp"), to("mptcp"), to("udp"), to("fastopen"), to("tcp6"), to("listen"), to("bind"), "raw".into(), "packet".into(),
            "netlink".into(), "vsock".into(), "alg".into(),
        ];
        let attacks: Vec<&str> = attacks.iter().map(String::as_str).collect();
        let may = ["mptcp", "tcp6", "raw", "packet", "vsock", "alg"];
        refused(bench, STRICT, &attacks, &may);
        refused(bench, WORKSPACE, &attacks, &may);
    }
}

as_both! {
    fn t3_107_no_name_is_looked_up_under_none(bench) {
        let call = bench.policy(&format!("allow = [\"getent\"]\n{STRICT}"));
        let answer = call.run(["getent", "hosts", "secret.a.example"]);
        assert_eq!(answer.status(), "nonzero_exit", "{}", answer.show());
        // And no datagram could have been sent: see `no_socket_of_any_family_under_none`.
        assert_eq!(answer.str("stdout"), "", "{}", answer.show());
    }
}

as_both! {
    fn host_opens_internet_addresses_only(bench) {
        let listener = TcpListener::bind("127.0.0.1:0").expect("bind");
        let port = listener.local_addr().expect("address").port();
        refused(bench, HOST_NETWORK, &["raw", "packet", "netlink", "vsock", "alg", &format!("mptcp:{port}")],
            &["raw", "packet", "vsock", "alg", "mptcp"]);
        for ground in scene::GROUNDS {
            let attacks = scene::words(&[&format!("tcp:{port}"), &format!("udp:{port}")]);
            let (outcomes, answer) = scene::attempt(bench, ground, HOST_NETWORK, &attacks);
            assert!(outcomes.values().all(|o| o == "open"), "{ground:?} {}", answer.show());
        }
    }
}

as_both! {
    fn a_loopback_is_the_runs_own(bench) {
        let toml = "[sandbox]\nprofile = \"strict\"\n[network]\nloopback = true\n";
        let listener = TcpListener::bind("127.0.0.1:0").expect("bind");
        let port = listener.local_addr().expect("address").port();
        let attacks = scene::words(&[&format!("tcp:{port}"), "bind:0", "vsock", "netlink"]);
        let (outcomes, answer) = scene::attempt(bench, scene::Ground::Namespaces, toml, &attacks);
        assert_eq!(outcomes[&attacks[0]], "refused ECONNREFUSED", "{}", answer.show());
        assert_eq!(outcomes[&attacks[1]], "open", "{}", answer.show());
        assert!(outcomes["vsock"].starts_with("refused") && outcomes["netlink"].starts_with("refused"), "{}", answer.show());
        let how = answer.json["sandbox"]["enforced"]["network"].as_str().unwrap_or("");
        assert!(how.contains("loopback"), "{}", answer.show());
        // Where there is no network namespace nothing is opened instead.
        for ground in [scene::Ground::Groups, scene::Ground::NoNamespaces] {
            let toml = format!("{}{}", toml.replace("\"strict\"\n", "\"strict\"\nrequire = []\n"), scene::rule());
            let (outcomes, answer) = scene::attempt_by(ground.call(bench, &toml), &attacks);
            assert!(outcomes.values().all(|o| o.starts_with("refused")), "{ground:?} {}", answer.show());
            let missing = answer.json["sandbox"]["missing"].to_string();
            let warnings = answer.json["warnings"].to_string();
            assert!(missing.contains("network") && warnings.contains("loopback"), "{ground:?} {}", answer.show());
            let toml = toml.replace("require = []\n", "");
            let answer = ground.call(bench, &toml).run([scene::attacker().to_str().expect("UTF-8"), "vsock"]);
            scene::unavailable(&answer, &["network", "loopback"]);
        }
    }
}

as_both! {
    fn descriptors_that_guardexec_inherited_do_not_reach_the_run(bench) {
        for profile in ["strict", "workspace", "host"] {
            for ground in scene::GROUNDS {
                let call = ground.call(bench, &format!("[sandbox]\nprofile = \"{profile}\"\n{}", scene::rule()));
                // Through a shell that leaves descriptors open behind it.
                let call = call.wrap(["/bin/sh", "-c", "exec 7</etc/passwd 8>&1 9>/dev/null; exec \"$0\" \"$@\""]);
                let attacks = scene::words(&["descriptors"]);
                let (outcomes, answer) = scene::attempt_by(call, &attacks);
                assert_eq!(outcomes["descriptors"], "refused EBADF", "{profile} {ground:?} {}", answer.show());
            }
        }
    }
}

as_both! {
    fn t3_93_the_way_to_the_users_daemons_is_not_handed_on(bench) {
        let names = ["XDG_RUNTIME_DIR", "DBUS_SESSION_BUS_ADDRESS", "SSH_AUTH_SOCK", "DOCKER_HOST", "TMUX"];
        for profile in ["strict", "workspace"] {
            let mut call = bench.policy(&format!("allow = [\"env\"]\n[sandbox]\nprofile = {profile:?}\n"));
            for name in names {
                call = call.env(name, "unix:path=/run/user/1000/bus");
            }
            let answer = call.run(["env"]);
            assert_eq!(answer.status(), "ok", "{}", answer.show());
            for name in names {
                assert!(!answer.str("stdout").contains(name), "{name} {}", answer.show());
            }
        }
        // Where the program is there, it finds nobody.
        if std::path::Path::new("/usr/bin/systemd-run").exists() {
            let answer = bench.policy(&format!("allow = [\"systemd-run\"]\n{STRICT}")).run(["systemd-run", "--user", "--wait", "id"]);
            assert_ne!(answer.json["exit_code"], 0, "{}", answer.show());
        }
    }
}

as_both! {
    fn t3_108_there_is_no_network_that_is_opened_by_halves(bench) {
        for mode in ["proxy", "allowlist"] {
            let toml = format!("allow = [\"true\"]\n[network]\nmode = {mode:?}\n");
            let answer = bench.policy(&toml).run(["true"]);
            assert_eq!((answer.status(), answer.exit), ("error", 125), "{}", answer.show());
        }
    }
}
