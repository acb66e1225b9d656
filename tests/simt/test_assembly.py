"""What a function reaches decides whether its threads are fibers."""

from kernelwright.simt import assembly

TEXT = """
define void @simt_loop_0(ptr %l) {
  call void @plain()
  ret void
}

define void @simt_loop_1(ptr %l) {
  call void @"helper with spaces"(ptr @plain)
  ret void
}

define internal void @plain() {
  ret void
}

define linkonce_odr void @"helper with spaces"(ptr %f) {
  call void @simt_wait_group()
  ret void
}

define void @simt_loop_2() {
  %x = call i32 @simt_self_lane()
  ret void
}
"""


def test_waiting_is_seen_through_calls() -> None:
    calls = assembly.references(TEXT)
    assert [assembly.waits(assembly.reached(calls, f"simt_loop_{i}")) for i in range(3)] == [False, True, True]


def test_recursion_ends() -> None:
    calls = assembly.references("define void @a() {\n  call void @b()\n}\ndefine void @b() {\n  call void @a()\n}\n")
    assert assembly.reached(calls, "a") == {"a", "b"}


def test_what_is_unwanted_becomes_internal() -> None:
    text = assembly.without(TEXT, ["simt_loop_1"])
    assert "define internal void @simt_loop_1(" in text and "define void @simt_loop_0(" in text
