# SPDX-License-Identifier: Apache-2.0
"""What travels between lmeval, the worker and the child: frames, and nothing that needs trust.

- lmeval to worker: a `LENGTH` frame with the settings as JSON; then per job `JOB` and a JSON body.
- Worker to lmeval: a `LENGTH` frame with what holds as JSON; then per job `REPLY` and the child's
  bytes, untouched.
- Child to worker: `READY`, then one JSON object a line, on a pipe of its own.
"""

from __future__ import annotations

import struct

LENGTH = struct.Struct("<I")

# Length of the body, 1 if the child gets the token, the token. A length of 0 ends the worker.
JOB = struct.Struct("<IB16s")
TOKEN_FLAG = 4
TOKEN_BYTES = 16

# Length of the child's output, how it ended, its wait status.
REPLY = struct.Struct("<IBi")

ENDED_ITSELF = 0
ENDED_BY_WALL_CLOCK = 1
ENDED_BY_CPU_TIME = 2
ENDED_BY_OUTPUT = 3
NEVER_STARTED = 4

# The child's first line, written once it is locked down and before any foreign code runs. Without
# it the fault is the harness's own; foreign code can't take it back.
READY = b"ready\n"
