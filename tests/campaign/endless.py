"""An endless model: it streams answers over real HTTP and always has more work.

    python -m tests.campaign.endless [--seed N]

Prints its address, and answers until its standard input ends. An answer has prose, commands that print a few or some
thousand lines, thoughts, and files that are written and read; after several answers it finishes the task.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import sys

from aiohttp import web

from tests.openai_server import Exchange, OpenAIServer, events_of_answer, sends

WORDS = "the build is red because a test waits for an echo that comes too late so look into `queue.py` first"
PAUSE_S = 0.004
"""Between two pieces of an answer."""
LAST_OF = 7
"""One answer in so many ends the turn."""


def prose(chance: random.Random) -> str:
    """A few paragraphs, lists and a block of code, in Markdown."""
    parts = []
    for _ in range(chance.randint(1, 4)):
        text = " ".join(chance.choices(WORDS.split(), k=chance.randint(8, 60)))
        parts.append(chance.choice((text, f"- {text}\n- {text[::-1]}", f"```python\nx = '{text}'\n```", f"## {text}")))
    return "\n\n".join(parts)


def calls(chance: random.Random) -> list[tuple[str, str]]:
    """The next actions, as names and arguments."""
    number = chance.randrange(10**6)
    path = f"note-{number % 20}.txt"
    command = chance.choice(
        (
            f"echo {number}; seq {chance.randint(1, 60)}",
            f"seq {number} {number + chance.randint(500, 4000)}",
            f"printf '%s\\n' {number} > {path}; cat {path}; ls -la",
            f"for i in 1 2 3 4 5; do printf '\\033[3%dmstep %d of {number}\\033[0m\\r\\n' $i $i; sleep 0.05; done",
            f"test {number} -lt 500000",
        )
    )
    wanted = [("execute_bash", {"command": command, "security_risk": "LOW"})]
    if chance.random() < 0.3:
        wanted.append(("think", {"thought": prose(chance)}))
    return [(name, json.dumps(arguments)) for name, arguments in wanted]


async def serve(seed: int) -> None:
    """Answer until standard input ends."""
    chance = random.Random(seed)

    async def behave(request: web.Request, exchange: Exchange) -> web.StreamResponse:
        server.exchanges.clear()
        tokens = len(json.dumps(exchange.body)) // 4
        usage = {"prompt_tokens": tokens, "completion_tokens": 100, "total_tokens": tokens + 100}
        is_last = not exchange.body.get("tools") or chance.randrange(LAST_OF) == 0
        parts = events_of_answer(prose(chance), () if is_last else calls(chance), usage=usage)
        return await sends(*parts, pause_s=PAUSE_S)(request, exchange)

    async with OpenAIServer(default=behave) as server:
        print(server.base_url, server.key, flush=True)
        await asyncio.to_thread(sys.stdin.read)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="python -m tests.campaign.endless")
    parser.add_argument("--seed", type=int, default=0)
    asyncio.run(serve(parser.parse_args().seed))
