from __future__ import annotations

from typing import TYPE_CHECKING

from probes.bpf.words.bcc import respell

if TYPE_CHECKING:
    from pathlib import Path


def _body(program: str, *, ring: bool = True) -> str:
    return respell(program, ring=ring).partition('"program.bpf.c"\n')[2]


def test_map_calls_become_methods() -> None:
    assert _body("x = sw_lookup(owners, &key);") == "x = owners.lookup(&key);"
    assert _body("sw_update(m, &k, &v)") == "m.update(&k, &v)"


def test_output_goes_to_a_ring_or_to_a_perf_buffer() -> None:
    call = "sw_output(events, ctx, &record)"
    assert "sw_ring_output(ring_, &record, sizeof(*(&record)), *mark_)" in _body(call)
    assert _body(call, ring=False) == "events.perf_submit(ctx, &record, sizeof(*(&record)))"


def test_lines_are_kept_so_that_compiler_errors_point_at_the_source() -> None:
    program = "int a;\nint f(void *ctx)\n{\n\tsw_count(sw_lost, 1);\n\treturn 0;\n}\n"
    assert _body(program).count("\n") == program.count("\n")


def test_a_header_of_words_is_put_in_and_the_lines_after_it_keep_their_numbers() -> None:
    program = 'int a;\n#include "calls.h"\nint b;\n'
    body = _body(program)
    assert body.startswith('int a;\n#line 1 "calls.h"\n')
    assert "call_threads.lookup(&key)" in body
    assert body.endswith('\n#line 3 "program.bpf.c"\nint b;\n')


def test_a_header_beside_the_program_is_put_in_before_one_of_words(tmp_path: Path) -> None:
    (tmp_path / "waits.h").write_text("x = sw_lookup(owners, &key);\n")
    body = respell('#include "waits.h"\n#include "calls.h"\n', ring=True, folder=tmp_path)
    own, _, words = body.partition('#line 1 "calls.h"')
    assert own.endswith('#line 1 "waits.h"\nx = owners.lookup(&key);\n#line 2 "program.bpf.c"\n')
    assert "call_threads.lookup(&key)" in words
