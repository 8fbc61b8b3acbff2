# The other end of the tests of listed Unix sockets: NAME:MODE:KIND:BACKLOG each. Tells whoever connects its name and whom it
# takes them for, and writes the name down; with a backlog it accepts nobody.
import os, socket, struct, sys, threading


def serve(name, mode, kind, backlog):
    s = socket.socket(socket.AF_UNIX, getattr(socket, kind))
    s.bind("\0" + name[1:] if name[0] == "@" else name)
    if name[0] != "@":
        os.chmod(name, int(mode, 8))
    s.listen(int(backlog or 200))
    print("ready", flush=True)
    while not backlog:
        c, _ = s.accept()
        pid, uid, gid = struct.unpack("3i", c.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))
        os.write(log, (name + "\n").encode())
        try:
            c.sendall(b"%s %d %d" % (os.path.basename(name).encode(), uid, gid))
        except OSError:
            pass
        c.close()
    threading.Event().wait()


log = os.open(sys.argv[1], os.O_WRONLY | os.O_CREAT | os.O_APPEND)
for word in sys.argv[2:]:
    threading.Thread(target=serve, args=word.split(":")).start()
