"""The load of requests that are repeated: wrk, which costs a fifth of what a generator in Python does.

A generator shares the machine with the server that it asks; a shop's backend does not. The less of the
machine it takes, the more is measured of the server alone.

Source: https://github.com/wg/wrk, "scripting.lua".
"""

from __future__ import annotations

import resource
from pathlib import Path
from secrets import token_hex
from tempfile import TemporaryDirectory
from typing import Final

import msgspec
import trio

from tests.bench.load import Report
from tests.packages import from_debian

# Stands in a request where each that is sent has something of its own, as long as this.
ONE_TIME: Final = "~" * 24

# `requests` are taken from a file, each after its length; what came of them is the last line that wrk prints.
SCRIPT: Final = """\
local requests, place, sent, run = {}, 0, 0, ""

function init(args)
  local file = io.open(args[1], "rb")
  run = args[2]
  local length = file:read("*n")
  while length do
    file:read(1)
    local whole = file:read(length)
    local first, last = whole:find(args[3], 1, true)
    table.insert(requests, first and {whole:sub(1, first - 1), whole:sub(last + 1)} or {whole})
    length = file:read("*n")
  end
end

function request()
  place = place % #requests + 1
  local head, rest = requests[place][1], requests[place][2]
  if not rest then return head end
  sent = sent + 1
  return head .. run .. string.format("%012d", sent) .. rest
end

function done(summary, latency)
  local errors = summary.errors
  io.write(string.format(
    '\\n{"answers":%d,"us":%d,"p50_us":%d,"p99_us":%d,"refused":%d,"broken":%d}',
    summary.requests, summary.duration, latency:percentile(50), latency:percentile(99),
    errors.status, errors.connect + errors.read + errors.write + errors.timeout))
end
"""


class Summary(msgspec.Struct):
    """What wrk says at its end; `broken` are connections that failed or waited for too long."""

    answers: int
    us: int
    p50_us: int
    p99_us: int
    refused: int
    broken: int


async def repeat_load(port: int, connections: int, requests: list[bytes], seconds: int) -> Report:
    """Send requests in turn, one at a time on each connection, for so many seconds; wrk knows whole ones.

    `ONE_TIME` in a request is another text each time that it is sent, also in another call.
    """
    wrk = await trio.to_thread.run_sync(from_debian, "wrk", "wrk")
    with TemporaryDirectory() as name:
        script, prepared = Path(name) / "load.lua", Path(name) / "requests"
        script.write_text(SCRIPT)
        prepared.write_bytes(b"".join(b"%d\n%b" % (len(request), request) for request in requests))
        command = [wrk, "-t1", f"-c{connections}", f"-d{seconds}s", "-s", str(script)]
        used_s = _children_s()
        done = await trio.run_process(
            [*command, f"http://127.0.0.1:{port}", "--", str(prepared), token_hex(6), ONE_TIME],
            capture_stdout=True,
        )
        used_s = _children_s() - used_s
    summary = msgspec.json.decode(done.stdout.splitlines()[-1], type=Summary)
    assert not summary.broken, f"{summary.broken} connections failed"
    return Report(
        answers=summary.answers,
        all_answers=summary.answers,
        seconds=summary.us / 1e6,
        p50_ms=summary.p50_us / 1000,
        p99_ms=summary.p99_us / 1000,
        refused=summary.refused,
        reopened=0,
        busy=used_s / (summary.us / 1e6),
    )


def _children_s() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime
