# What the tests of listed Unix sockets try from inside a run: each word is one thing, NAME:ARGUMENT:ARGUMENT. One line each
# says how it went: "WORD RESULT".
import ctypes, errno, os, signal, socket, struct, sys, threading, time

libc = ctypes.CDLL(None, use_errno=True)


def raw(family, path, length=None, kind=socket.SOCK_STREAM, call="connect", sock=None):
    """The call with exactly these bytes for an address."""
    address = struct.pack("H", family) + path
    s = sock or socket.socket(socket.AF_UNIX, kind)
    if getattr(libc, call)(s.fileno(), address, len(address) if length is None else length) < 0:
        raise OSError(ctypes.get_errno(), "")
    return s


def hear(s):
    return s.recv(100).decode().strip()


def connect(path, kind=socket.SOCK_STREAM):
    s = socket.socket(socket.AF_UNIX, kind)
    s.connect(path)
    return hear(s)


def nul(first, second):
    return hear(raw(socket.AF_UNIX, first.encode() + b"\0" + second.encode()))


def swap(listed, other):
    os.rename(listed, listed + ".away")
    os.rename(other, listed)
    return connect(listed)


def link(listed, other):
    os.rename(listed, listed + ".away")
    os.symlink(other, listed)
    return connect(listed)


def bind(name, kind=socket.SOCK_STREAM):
    s = socket.socket(socket.AF_UNIX, kind)
    s.bind(name)
    return "bound"


def sendto(listed, other, connected, kind):
    kind = getattr(socket, kind)
    s = socket.socket(socket.AF_UNIX, kind)
    if connected == "yes":
        s.connect(listed)
        hear(s)
    try:
        # A packet that is delivered nowhere but to the other end is no error (the kernel ignores the name).
        s.sendmsg([b"stray"], [], 0, other)
        return "sent"
    finally:
        try:
            s.sendto(b"stray", other)
        except OSError:
            pass


def many(path, count):
    results = []

    def one():
        try:
            results.append(connect(path))
        except OSError as e:
            results.append(errno.errorcode[e.errno])

    threads = [threading.Thread(target=one) for _ in range(int(count))]
    [t.start() for t in threads]
    [t.join() for t in threads]
    return "%d %s" % (len(results), sorted(set(results)))


def signals(path, count):
    signal.signal(signal.SIGALRM, lambda *_: None)
    signal.siginterrupt(signal.SIGALRM, False)
    signal.setitimer(signal.ITIMER_REAL, 0.0003, 0.0003)
    said = set()
    for _ in range(int(count)):
        try:
            s = raw(socket.AF_UNIX, path.encode())
            said.add(hear(s))
        except OSError as e:
            said.add(errno.errorcode[e.errno])
    signal.setitimer(signal.ITIMER_REAL, 0)
    return str(sorted(said))


kept = []


def fill(path):
    while True:
        s = socket.socket(socket.AF_UNIX)
        s.setblocking(False)
        try:
            s.connect(path)
        except OSError as e:
            return errno.errorcode[e.errno]
        kept.append(s)


def full(path, other):
    """Fills a queue that nobody serves; one waits for it, and that holds up nobody else."""
    code = fill(path)
    waiter = threading.Thread(target=connect, args=(path,), daemon=True)
    waiter.start()
    time.sleep(0.3)
    return "%s %s %s" % (code, waiter.is_alive(), connect(other))


def wait(path):
    """Hangs in connect until it is killed."""
    fill(path)
    for _ in range(3):
        threading.Thread(target=connect, args=(path,)).start()
    print("waiting", flush=True)
    connect(path)


def tcp(port):
    s = socket.create_connection(("127.0.0.1", int(port)))
    return hear(s)


def tcpnb(port):
    s = socket.socket()
    s.setblocking(False)
    code = s.connect_ex(("127.0.0.1", int(port)))
    s.setblocking(True)
    return "%s %s" % (errno.errorcode.get(code, "0"), hear(s))


def serve():
    with socket.create_server(("127.0.0.1", 0)) as s, socket.create_connection(s.getsockname()) as c:
        s.accept()[0].sendall(b"served")
        return hear(c)


def udp():
    a, b = socket.socket(socket.AF_INET, socket.SOCK_DGRAM), socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    a.bind(("127.0.0.1", 0))
    b.connect(a.getsockname())
    b.send(b"datagram")
    return hear(a)


def thread(path):
    """From a thread, when the first one of the process has ended."""
    def late():
        time.sleep(0.1)
        try:
            print("thread:%s %s" % (path, connect(path)), flush=True)
        except OSError as e:
            print("thread:%s %s" % (path, errno.errorcode[e.errno]), flush=True)
        os._exit(0)

    threading.Thread(target=late).start()
    libc.syscall(60, 0)


def options(path):
    """What was set on the socket before is still so: it is the run's own."""
    s = socket.socket(socket.AF_UNIX)
    s.setsockopt(socket.SOL_SOCKET, socket.SO_PASSCRED, 1)
    s.setblocking(False)
    twin = s.dup()
    s.connect(path)
    twin.setblocking(True)
    return "%d %s" % (s.getsockopt(socket.SOL_SOCKET, socket.SO_PASSCRED), hear(twin))


packets = socket.SOCK_SEQPACKET
things = {
    "connect": connect,
    "abstract": lambda name: connect("\0" + name),
    "seqpacket": lambda path: connect(path, packets),
    "dgram": lambda path: connect(path, socket.SOCK_DGRAM),
    "raw": lambda path: connect(path, socket.SOCK_RAW),
    "nul": nul,
    "long": lambda path: hear(raw(socket.AF_UNIX, path.encode().ljust(108, b"/"))),
    "longer": lambda path: hear(raw(socket.AF_UNIX, path.encode().ljust(200, b"\0"))),
    "short": lambda path: hear(raw(socket.AF_UNIX, path.encode(), 2)),
    "negative": lambda path: hear(raw(socket.AF_UNIX, path.encode(), -1)),
    "alien": lambda path: hear(raw(socket.AF_INET, path.encode())),
    "swap": swap,
    "link": link,
    "bind": bind,
    "bindabstract": lambda name: bind("\0" + name),
    "sendto": sendto,
    "many": many,
    "signals": signals,
    "full": full,
    "wait": wait,
    "tcp": tcp,
    "tcpnb": tcpnb,
    "serve": serve,
    "udp": udp,
    "thread": thread,
    "options": options,
    "inet": lambda: "made %d" % socket.socket().fileno(),
}

for word in sys.argv[1:]:
    name, *arguments = word.split(":")
    try:
        result = things[name](*arguments)
    except OSError as e:
        result = errno.errorcode[e.errno]
    print(word, result, flush=True)
