#!/usr/bin/python3 -I
"""A check on requests: does what a tool is called for belong to the agent who asks?

    ownership.py DATABASE PARAM[=KIND]...   as `run` of a [[check]] with on = "request"
    ownership.py --init DATABASE [FILE]     makes the database, from FILE (default: ownership.sql beside this script)

Each PARAM of the tool's call has to be in the table `owns` for this agent, as the id of a KIND (default: its own
name). The agent is the first part of the asker's name, so an entry for `support` counts for `support/night` too, as in a
rule's `agents`. No agent, a missing parameter, a value that is neither a text nor a whole number: blocked. Whatever else
goes wrong is a failure of the check, and that blocks as well. The protocol is in guardexec-check(7).
"""
import json
import os
import pathlib
import sqlite3
import sys


def main(words):
    if words[:1] == ["--init"] and len(words) in (2, 3):
        beside = os.path.join(os.path.dirname(os.path.realpath(__file__)), "ownership.sql")
        init(words[1], words[2] if len(words) == 3 else beside)
    elif len(words) >= 2 and not words[0].startswith("-"):
        verdict, reason = judge(json.load(sys.stdin), words[0], words[1:])
        print(json.dumps({"verdict": verdict, "reason": reason}))
    else:
        sys.exit(__doc__)


def judge(request, database, params):
    agent = (request["agent"] or "").split("/")[0]
    if not agent:
        return "block", "nobody says who asks (--agent)"
    arguments = request["arguments"]
    if arguments is None:
        return "block", "only a tool's call can be judged by what belongs to whom"
    # Read-only: a check that judges changes nothing, and a database that is not there is not made.
    uri = pathlib.Path(os.path.abspath(database)).as_uri() + "?mode=ro"
    connection = sqlite3.connect(uri, uri=True, timeout=2)
    for param in params:
        name, _, kind = param.partition("=")
        kind = kind or name
        value = arguments.get(name)
        if isinstance(value, bool) or not isinstance(value, (str, int)):
            return "block", f"{name} is no {kind}"
        found = connection.execute(
            "SELECT 1 FROM owns WHERE agent = ? AND kind = ? AND id = ?", (agent, kind, str(value))
        ).fetchone()
        if found is None:
            return "block", f"{kind} {value!r} does not belong to agent {agent!r}"
    return "pass", "all of it belongs to the agent"


def init(database, script):
    with open(script, encoding="utf-8") as file:
        sql = file.read()
    # Fails where something is there already: whose customers are whose is not to be lost by a second call.
    os.close(os.open(database, os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_CLOEXEC, 0o600))
    connection = sqlite3.connect(database)
    try:
        connection.executescript(sql)
    finally:
        connection.close()


if __name__ == "__main__":
    main(sys.argv[1:])
