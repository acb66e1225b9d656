"""What cuda_judge.py asks of a GPU outside the judge: texts of processes of their own, which print JSON lines."""

COMMON = """
import ctypes, json, os, sys, time
clock = time.perf_counter
began = clock()
def tell(**found): print(json.dumps(found), flush=True)
"""
SPIKES = {
    # What a process pays until it has computed something on the GPU, and what memory its context holds.
    "context": """
import torch
imported = clock()
torch.cuda.init(); inited = clock()
x = torch.zeros(1, device="cuda"); torch.cuda.synchronize(); first = clock()
torch.mm(torch.ones(64, 64, device="cuda"), torch.ones(64, 64, device="cuda")); torch.cuda.synchronize()
product = clock()
free, total = torch.cuda.mem_get_info()
with open("/proc/self/statm") as f: pages = int(f.read().split()[1])
tell(import_s=imported - began, init_s=inited - imported, first_s=first - inited, product_s=product - first,
     used_mb=(total - free) / 2**20, resident_mb=pages * 4096 / 2**20, threads=len(os.listdir("/proc/self/task")))
import subprocess
code = "import torch; torch.zeros(1, device='cuda'); torch.cuda.synchronize(); print(1, flush=True); input()"
other = subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
other.stdout.readline()
more, _ = torch.cuda.mem_get_info()
tell(second_context_mb=(free - more) / 2**20)
other.kill()
""",
    # Memory that crosses: by the virtual memory interface and an open file (what the judge does), and by CUDA IPC.
    "sharing": """
import socket, torch
sys.path[:0] = [p for p in os.environ.get("PYTHONPATH", "").split(":") if p]
from kernelwright.judge.cuda_memory import CudaMemory
ours, theirs = socket.socketpair()
pid = os.fork()
if pid == 0:
    ours.close()
    if sys.argv[1:] == ["nobody"] or os.getuid() == 0:
        os.setresgid(65534, 65534, 65534); os.setresuid(65534, 65534, 65534)
    try:
        torch.cuda.init(); torch.zeros(1, device="cuda"); torch.cuda.synchronize()
        size = int.from_bytes(theirs.recv(8), "little")
        _, files, _, _ = socket.recv_fds(theirs, 1, 1)
        at = clock(); memory = CudaMemory.open(files[0], size); opened = clock() - at
        right = bool((memory.bytes[:1000] == 7).all()); memory.bytes[1000:2000] = 9; torch.cuda.synchronize()
        big = memory.bytes[: 1 << 30]; other = torch.empty_like(big)
        other.copy_(big); torch.cuda.synchronize(); at = clock(); other.copy_(big); torch.cuda.synchronize()
        tell(what="open file, as nobody", open_ms=opened * 1e3, right=right, copy_gbs=2 * 2**30 / (clock() - at) / 1e9)
    except BaseException as error:
        tell(what="open file, as nobody", error=repr(error))
    theirs.send(b"x"); theirs.recv(1)
    try:
        handle = theirs.recv(64); address = ctypes.c_uint64()
        class Handle(ctypes.Structure): _fields_ = [("b", ctypes.c_char * 64)]
        lib = ctypes.CDLL("libcuda.so.1"); lib.cuIpcOpenMemHandle_v2.argtypes = [ctypes.c_void_p, Handle, ctypes.c_uint]
        h = Handle(); ctypes.memmove(ctypes.byref(h), handle, 64); at = clock()
        code = lib.cuIpcOpenMemHandle_v2(ctypes.byref(address), h, 1)
        tell(what="CUDA IPC, root to nobody", code=code, ms=(clock() - at) * 1e3)
    except BaseException as error:
        tell(what="CUDA IPC, root to nobody", error=repr(error))
    os._exit(0)
theirs.close()
torch.zeros(1, device="cuda"); torch.cuda.synchronize()
at = clock(); memory = CudaMemory.create(1 << 31); made = clock() - at
memory.bytes[:1000] = 7; torch.cuda.synchronize()
ours.send(memory.size.to_bytes(8, "little")); socket.send_fds(ours, [b"f"], [memory.file])
ours.recv(1)
tell(what="created", create_ms=made * 1e3, seen=bool((memory.bytes[1000:2000] == 9).all()))
lib = ctypes.CDLL("libcuda.so.1"); p = ctypes.c_uint64(); lib.cuMemAlloc_v2(ctypes.byref(p), ctypes.c_size_t(1 << 21))
h = ctypes.create_string_buffer(64); code = lib.cuIpcGetMemHandle(h, p)
tell(what="IPC handle", code=code)
ours.send(b"y"); ours.send(h.raw); os.waitpid(pid, 0)
""",
    # Which layers of the sandbox the GPU does not stand: a process confined as a child is, and with less and less; each
    # layer alone; which system calls, denied, keep it from starting; which files it asks for.
    "sandbox": """
LOOSER = [[], ["_filter"], ["landlock_version"], ["_filter", "landlock_version"],
          ["_filter", "landlock_version", "_become_nobody"],
          ["_filter", "landlock_version", "_become_nobody", "_give_up_capabilities", "_limit"]]
import torch, tempfile, struct, socket, select, fcntl
sys.path[:0] = [p for p in os.environ.get("PYTHONPATH", "").split(":") if p]
from kernelwright.judge.cuda_ground import CudaGround
from kernelwright.judge.spawn import readable
from kernelwright.sandbox import Limits, linux, seccomp
from kernelwright.sandbox.syscalls import MACHINES
ctypes.CDLL("libcuda.so.1")
ground = CudaGround()
libc, machine = linux._libc(), linux._machine()
numbers = machine.numbers
def use():
    torch.cuda.init(); torch.zeros(1, device="cuda"); torch.cuda.synchronize()
def only(*names):
    seccomp._ALWAYS[:] = names
    seccomp._UNLESS_EXEC[:] = []; seccomp._IF_EXEC[:] = []
    seccomp._when, kept = (lambda *a: []), seccomp._when
    return seccomp.program(machine, os.getpid(), execute=False)
real = seccomp.program
def install(code):
    linux.program = lambda *a, **k: code
    linux._filter(libc, machine, False, listen=False)
def rules(read, write, devices=(), execute=False):
    version = linux.landlock_version()
    made = linux._ruleset(libc, machine, version, read, write, devices, execute)
    libc.prctl(38, 1, 0, 0, 0)
    linux._check(libc.syscall(numbers["landlock_restrict_self"], made, 0), "restrict")
reads = (*readable(), *ground.readable())
def attempt(name, layer, quiet=False):
    ours, theirs = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            folder = tempfile.mkdtemp(); os.chmod(folder, 0o777)
            os.environ.update(HOME=folder, TMPDIR=folder)
            layer(folder)
            at = clock(); use()
            os.write(theirs, json.dumps(dict(ready_s=round(clock() - at, 3))).encode())
        except BaseException as error:
            os.write(theirs, json.dumps(dict(error=repr(error)[-160:])).encode())
        os._exit(0)
    os.close(theirs)
    found = b""
    if select.select([ours], [], [], 20)[0]: found = os.read(ours, 4000)
    else: os.kill(pid, 9)
    os.waitpid(pid, 0); os.close(ours)
    said = json.loads(found or b'{"error": "no answer"}')
    if not quiet or "error" in said: tell(what=name, **said)
    return "error" not in said
rw = ("/dev/null",)
def confined(*without):
    def layer(folder):
        for name in without:
            setattr(linux, name, (lambda: 0) if name == "landlock_version" else (lambda *a, **k: None))
        from kernelwright.sandbox import confine
        confine(reads, (folder, *rw), Limits(), devices=ground.devices(), allow_weaker=True, die_with_parent=True)
    return layer
for without in LOOSER:
    if attempt("as a child, without: " + (" ".join(without) or "nothing"), confined(*without)):
        tell(works_without=without)
        break
attempt("nothing closed", lambda folder: None)
attempt("nobody", lambda folder: linux._become_nobody(libc, [folder]))
attempt("capabilities", lambda folder: linux._give_up_capabilities(libc, machine, False))
attempt("limits", lambda folder: linux._limit(Limits()))
attempt("not dumpable", lambda folder: libc.prctl(4, 0, 0, 0, 0))
attempt("dies with its parent", lambda folder: libc.prctl(1, 9, 0, 0, 0))
attempt("no new privileges", lambda folder: libc.prctl(38, 1, 0, 0, 0))
attempt("Landlock", lambda folder: rules(reads, (folder, *rw), ground.devices()))
attempt("Landlock, may execute", lambda folder: rules(reads, (folder, *rw), ground.devices(), True))
attempt("Landlock, reads all", lambda folder: rules(("/",), (folder, *rw), ground.devices()))
attempt("Landlock, reads /proc", lambda folder: rules((*reads, "/proc"), (folder, *rw), ground.devices()))
attempt("Landlock, reads /sys", lambda folder: rules((*reads, "/sys"), (folder, *rw), ground.devices()))
attempt("Landlock, reads /dev", lambda folder: rules((*reads, "/dev"), (folder, *rw), ground.devices()))
attempt("Landlock, reads /etc", lambda folder: rules((*reads, "/etc"), (folder, *rw), ground.devices()))
attempt("Landlock, writes /dev", lambda folder: rules(reads, (folder, *rw), (*ground.devices(), "/dev")))
for where in ("/proc/self", "/dev/shm", "/tmp", "/run"):
    layer = lambda folder: rules(("/",), (folder, *rw, where), ground.devices())
    attempt("Landlock, reads all, writes " + where, layer)
attempt("Landlock, writes all", lambda folder: rules(("/",), ("/",), ("/dev",)))
attempt("filter", lambda folder: install(seccomp.program(machine, os.getpid(), execute=False)))
attempt("filter, may execute", lambda folder: install(seccomp.program(machine, os.getpid(), execute=True)))
attempt("filter of arguments alone", lambda folder: (seccomp._ALWAYS.clear(), seccomp._UNLESS_EXEC.clear(),
        install(seccomp.program(machine, os.getpid(), execute=False))))
every = [name for name in (*seccomp._ALWAYS, *seccomp._UNLESS_EXEC) if name in numbers]
bad = []
def split(names):
    if attempt("without " + " ".join(names)[:60], lambda folder: install(only(*names)), True) : return
    if len(names) == 1: bad.append(names[0]); return
    split(names[: len(names) // 2]); split(names[len(names) // 2 :])
split(every)
tell(what="calls it needs", names=bad)
def watched():
    nrs = dict(open=2, openat=257, openat2=437, access=21, faccessat=269, faccessat2=439, stat=4, newfstatat=262,
               readlink=89, memfd_create=319, socket=41, connect=42, mknod=133, execve=59, chmod=90, statx=332)
    lines = [struct.pack("HBBI", 0x20, 0, 0, 0)]
    for nr in nrs.values(): lines += [struct.pack("HBBI", 0x15, 0, 1, nr), struct.pack("HBBI", 6, 0, 0, 0x7FC00000)]
    code = b"".join([*lines, struct.pack("HBBI", 6, 0, 0, 0x7FFF0000)])
    ours, theirs = socket.socketpair()
    pid = os.fork()
    if pid == 0:
        libc.prctl(38, 1, 0, 0, 0)
        buffer = ctypes.create_string_buffer(code)
        prog = ctypes.create_string_buffer(struct.pack("HxxxxxxQ", len(code) // 8, ctypes.addressof(buffer)))
        fd = libc.syscall(317, 1, 8, prog)
        socket.send_fds(theirs, [b"f"], [fd])
        use()
        os._exit(0)
    fd = socket.recv_fds(ours, 1, 1)[1][0]
    seen = {}
    names = {nr: name for name, nr in nrs.items()}
    end = clock() + 30
    while clock() < end:
        if os.waitpid(pid, os.WNOHANG)[0]: break
        if not select.select([fd], [], [], 0.2)[0]: continue
        note = bytearray(80)
        try: fcntl.ioctl(fd, 0xC0502100, note)
        except OSError: continue
        ident, who, _, nr = struct.unpack_from("QIIi", note)
        args = struct.unpack_from("6Q", note, 32)
        first = ("open", "access", "stat", "readlink", "memfd_create", "mknod", "execve", "chmod")
        at = args[0] if names[nr] in first else args[1]
        text = ""
        if names[nr] not in ("socket", "connect"):
            try:
                with open(f"/proc/{who}/mem", "rb", 0) as memory:
                    memory.seek(at); text = memory.read(200).split(b"\\0")[0].decode(errors="replace")
            except OSError: pass
        flags = args[{"openat": 2, "open": 1, "memfd_create": 1}.get(names[nr], 0)]
        if names[nr] == "socket": text = f"{args[0]} {args[1]:#x} {args[2]}"
        mode = {0: "r", 1: "w", 2: "rw"}.get(flags & 3, "?") if "open" in names[nr] else ""
        seen[f"{names[nr]} {mode} {text}"] = seen.get(f"{names[nr]} {mode} {text}", 0) + 1
        go_on = struct.pack("Qqii", ident, 0, 0, 1)
        try: fcntl.ioctl(fd, 0xC0182101, go_on)
        except OSError: pass
    home = os.path.expanduser("~").rstrip("/")
    ours = [key.replace(home + "/", "~/") if home else key for key in seen if "site-packages" not in key]
    tell(what="files it asks for", seen=sorted(ours)[:250])
watched()
""",
    # Does a stopped process's GPU work go on, and how does other work on the GPU show from outside?
    "stopping": """
import signal, torch
read, write = os.pipe()
pid = os.fork()
if pid == 0:
    x = torch.zeros(1, device="cuda"); torch.cuda.synchronize()
    torch.cuda._sleep(int(2e9)); x.add_(1)
    os.write(write, b"s")
    time.sleep(30)
    os._exit(0)
x = torch.zeros(1, device="cuda"); torch.cuda.synchronize()
def probe():
    g = torch.cuda.CUDAGraph()
    with torch.cuda.graph(g):
        for _ in range(6000): x.add_(1)
    g.replay(); torch.cuda.synchronize()
    def once():
        at = clock(); g.replay(); torch.cuda.synchronize(); return (clock() - at) * 1e3
    return once
once = probe()
os.read(read, 1)
time.sleep(0.1)
running = [once() for _ in range(5)]
os.kill(pid, signal.SIGSTOP)
stopped = [once() for _ in range(5)]
time.sleep(3)
quiet = [once() for _ in range(5)]
os.kill(pid, 9); os.waitpid(pid, 0)
tell(probe_ms_while_it_runs=running, probe_ms_stopped=stopped, probe_ms_quiet=quiet)
""",
}
