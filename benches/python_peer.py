"""What many agents do today, in one shot: `subprocess.run` with the belts that guardexec's `host` profile wears.

usage: python_peer.py PROGRAM [ARG]...      a JSON result on standard output
"""

import json
import resource
import subprocess
import sys
import time

SMALL_ENV = {"PATH": "/usr/local/bin:/usr/bin:/bin", "LANG": "C.UTF-8", "HOME": "/", "TERM": "dumb"}
KEPT = 64 * 1024
RLIMITS = {
    resource.RLIMIT_CPU: 60,
    resource.RLIMIT_DATA: 1 << 30,
    resource.RLIMIT_FSIZE: 1 << 30,
    resource.RLIMIT_NOFILE: 1024,
    resource.RLIMIT_CORE: 0,
}


def belts():
    for what, value in RLIMITS.items():
        hard = resource.getrlimit(what)[1]
        value = value if hard == resource.RLIM_INFINITY else min(value, hard)
        resource.setrlimit(what, (value, value))


def kept(data):
    return (data or b"")[:KEPT].decode("utf-8", "replace")


def main(argv):
    began = time.monotonic()
    result = {"argv": argv, "status": "ok", "exit_code": None}
    try:
        ended = subprocess.run(
            argv, stdin=subprocess.DEVNULL, capture_output=True, env=SMALL_ENV, timeout=60,
            preexec_fn=belts, start_new_session=True, close_fds=True,
        )
        result["exit_code"] = ended.returncode
        result["status"] = "ok" if ended.returncode == 0 else "nonzero_exit"
        out, err = ended.stdout, ended.stderr
    except subprocess.TimeoutExpired as late:
        result["status"] = "timeout"
        out, err = late.stdout, late.stderr
    result.update(stdout=kept(out), stderr=kept(err), duration_ms=int((time.monotonic() - began) * 1000))
    json.dump(result, sys.stdout)
    print()
    return result["exit_code"] if result["exit_code"] is not None else 124


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
