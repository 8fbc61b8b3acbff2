//! Secrets vanish, everything else stays.

use super::*;
use proptest::prelude::*;

const SEC: &str = "s3cr3t-Value9";

fn one(word: &str) -> String {
    mask_argv(&["prog", word]).pop().unwrap()
}

#[test]
fn every_known_spelling_hides_the_secret() {
    let spellings: [&[&str]; 34] = [
        &["--token=@"],
        &["--token", "@"],
        &["--token=@\r"],
        &["--token=a\r\n@"],
        &["-password", "@"],
        &["--github-token=@"],
        &["--db_password=@"],
        &["--accessToken=@"],
        &["--api-key", "@"],
        &["--apikey=@"],
        &["--auth=@"],
        &["--client-secret", "@"],
        &["--private-key=@"],
        &["--credentials=@"],
        &["--bearer", "@"],
        &["-u", "admin:@"],
        &["-uadmin:@"],
        &["--user", "admin:@"],
        &["-e", "NAME_TOKEN=@"],
        &["AWS_SECRET_ACCESS_KEY=@"],
        &["--env=API_KEY=@"],
        &["PGPASSWORD=a b @"],
        &["-H", "Authorization: Bearer @"],
        &["--header=Authorization: Bearer @"],
        &["-H", "X-Api-Key: @"],
        &["-H", "Cookie: a=@"],
        &["-d", "{\"password\": \"@\"}"],
        &["-d", "{\"a\": 1, \"apiKey\":\"x @\"}"],
        &["https://user:@@host/path"],
        &["postgres://u:p@@host/db"],
        &["https://h/p?x=1&token=@&y=2"],
        &["-c", "curl -H 'Authorization: Bearer @' http://h"],
        &["-c", "TOKEN=@ ./run; ls"],
        &["-----BEGIN OPENSSH PRIVATE KEY-----\n@"],
    ];
    for spelling in spellings {
        let argv: Vec<String> = std::iter::once("echo".to_owned())
            .chain(spelling.iter().map(|w| w.replacen('@', SEC, 1)))
            .collect();
        let shown = mask_argv(&argv);
        assert_eq!(shown.len(), argv.len());
        assert!(!shown.iter().any(|w| w.contains(SEC)), "{argv:?} -> {shown:?}");
        assert!(shown.iter().any(|w| w.contains(MASKED)), "{argv:?} -> {shown:?}");
    }
}

#[test]
fn token_shapes_are_masked_anywhere() {
    let tokens = [
        "ghp_abcdefghijklmnopqrstuvwxyz0123456789",
        "github_pat_11ABCDEFG0abcdefghijkl",
        "sk-proj-abcdefghijklmnop0123456789",
        "AKIAIOSFODNN7EXAMPLE",
        "xoxb-123456789012-abcdef",
        "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0In0.c2lnbmF0dXJl",
    ];
    for token in tokens {
        for word in
            [token.to_owned(), format!("x={token}"), format!("a '{token}' b"), format!("/p/{token}/q")]
        {
            let shown = one(&word);
            assert!(!shown.contains(token) && shown.contains(MASKED), "{word} -> {shown}");
        }
    }
}

#[test]
fn what_is_no_secret_stays() {
    let words = [
        "--oneline",
        "--no-auth",
        "--author=me",
        "--keyring=x",
        "--tokenizer=bpe",
        "key.txt",
        "a:b",
        "https://host:8080/path",
        "git@github.com:owner/repo.git",
        "nginx:1.2@sha256:0123456789abcdef",
        "--sort=key:desc",
        "sk-learn",
        "task-list-of-many-things-2024",
        "std::token::new",
        "http://tokens.example/",
        "LANG=C",
        "--password-stdin",
    ];
    for word in words {
        assert_eq!(one(word), word);
    }
    assert_eq!(mask_argv(&["p", "--token", "--verbose"]), ["p", "--token", "--verbose"]);
}

#[test]
fn code_is_not_hidden_behind_a_secret() {
    let shown = mask_argv(&["sh", "-c", "token=1; rm -rf /"]);
    assert_eq!(shown[2], "token=[masked]; rm -rf /");
    let shown = mask_argv(&["sh", "-c", "PASSWORD='a b' x && y"]);
    assert_eq!(shown[2], "PASSWORD=[masked]' x && y");
}

#[test]
fn glued_passwords_only_where_they_are_known() {
    assert_eq!(mask_argv(&["/usr/bin/mysql", "-pabc"]), ["/usr/bin/mysql", "-p[masked]"]);
    assert_eq!(mask_argv(&["mkdir", "-pabc"]), ["mkdir", "-pabc"]);
}

#[test]
fn the_program_itself_is_not_taken_for_a_value() {
    assert_eq!(mask_argv(&["token", "x"]), ["token", "x"]);
}

#[test]
fn words_outside_utf8_keep_their_bytes() {
    assert_eq!(mask_argv(&[b"a".as_slice(), b"\xff\\"]), ["a", "\\xff\\\\"]);
}

#[test]
fn sentences_lose_the_secrets_of_their_command() {
    let argv = ["p", "--token", SEC, "--api-key=abcdef", "-u", "me:xy", "plain"];
    let sentence = format!("value '{SEC}' of --token and 'abcdef', xy, plain");
    assert_eq!(mask_text(&sentence, &argv), "value '[masked]' of --token and '[masked]', xy, plain");
    let argv = ["sh", "-c", "TOKEN=first1 x; TOKEN=second2 y"];
    assert!(!mask_text(&format!("in {}", argv[2]), &argv).contains("first1"));
}

#[test]
fn a_sentence_and_a_label_lose_the_secrets_they_spell_out() {
    let none: [&[u8]; 0] = [];
    let why = "because password=hunter2 and https://u:pw12345@h/ and ghp_abcdefghijklmnop1234, so there: go";
    assert_eq!(
        mask_text(why, &none),
        "because password=[masked] and https://u:[masked]@h/ and [masked], so there: go"
    );
    let plain = "rule 'g' does not allow '--force' there; it allows ['-s', '--token']";
    assert_eq!(mask_text(plain, &none), plain);
    assert_eq!(mask_value("token", "abc d"), MASKED);
    assert_eq!(mask_value("note", "ghp_abcdefghijklmnop1234"), MASKED);
    assert_eq!(
        (mask_value("ci", "run 4").as_str(), mask_value("cwd", "/a/b=c").as_str()),
        ("run 4", "/a/b=c")
    );
}

#[test]
fn a_long_word_takes_linear_time() {
    let start = std::time::Instant::now();
    for unit in ["a=", "token:", "eyJ", "-----BEGIN ", "x@", "a:", "\"'", "sk-", "k", " "] {
        let shown = one(&unit.repeat(131_072 / unit.len()));
        assert!(!shown.is_empty());
    }
    // Quadratic work on 128 KiB would take minutes.
    assert!(start.elapsed() < std::time::Duration::from_secs(20), "{:?}", start.elapsed());
}

proptest! {
    #[test]
    fn any_bytes_are_masked_without_panic(argv in proptest::collection::vec(any::<Vec<u8>>(), 0..6)) {
        prop_assert_eq!(mask_argv(&argv).len(), argv.len());
    }

    #[test]
    fn harmless_words_are_unchanged(argv in proptest::collection::vec("[a-zA-Z/.]{0,12}", 1..6)) {
        prop_assert_eq!(mask_argv(&argv), argv);
    }
}

#[test]
fn variables_are_masked_by_name_and_by_value() {
    let shown = |name: &str, value: &str| {
        String::from_utf8(mask_variable(name.as_bytes(), value.as_bytes())).unwrap()
    };
    for name in [
        "API_KEY",
        "GITHUB_TOKEN",
        "dbPassword",
        "DB_PASS",
        "GH_PAT",
        "AWS_CREDS",
        "HTTP_AUTHORIZATION",
        "COOKIE",
    ] {
        assert_eq!(shown(name, SEC), MASKED, "{name}");
    }
    assert_eq!(shown("DATABASE_URL", "postgres://u:s3cr3t@db/x"), "postgres://u:[masked]@db/x");
    assert_eq!(shown("X", "ghp_0123456789abcdef0123"), MASKED);
    for (name, value) in [
        ("PWD", "/srv/x"),
        ("PATH", "/usr/bin:/bin"),
        ("COMPASS", "north"),
        ("LANG", "C.UTF-8"),
        ("TOKEN", ""),
    ] {
        assert_eq!(shown(name, value), value, "{name}");
    }
}
