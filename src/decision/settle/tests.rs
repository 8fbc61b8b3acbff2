//! Tests.

use super::*;

#[test]
fn limits_read_as_a_policy_writes_them() {
    let mut limits = crate::policy::model::Limits::default().effective();
    limits.memory = Bound::At(3 << 29);
    limits.output = Bound::At(1001);
    limits.pids = Bound::Lifted;
    let text = shown(&limits);
    assert!(
        text.starts_with("wall_time 60s, cpu_time 60s, memory 1536M, pids none, output 1001B, "),
        "{text}"
    );
    assert!(text.ends_with("file_size 1G, open_files 1024, cpus none"), "{text}");
}
