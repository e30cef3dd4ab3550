"""Takes locks with redis-py's Lock, as told by lines of JSON on standard input, and ends with it.

{"id", "command", ...arguments} is answered by {"id", "result"} or {"id", "error"}, each command in a thread of its own.
"""

import json
import random
import sys
import threading
import time
import traceback

import redis
from redis.exceptions import LockNotOwnedError

client = redis.Redis.from_url(sys.argv[1])
holds = {}
output = threading.Lock()


def seconds(ms):
    return None if ms is None else ms / 1000


def acquire(hold, key, waitMs, ttlMs=None):
    lock = client.lock(key, timeout=seconds(ttlMs), sleep=0.02, thread_local=False)
    if not lock.acquire(blocking=waitMs > 0, blocking_timeout=seconds(waitMs)):
        return None
    holds[hold] = lock
    return lock.local.token.decode()


def release(hold):
    return owned(holds[hold].release)


def extend(hold, ms):
    return owned(lambda: holds[hold].extend(seconds(ms), replace_ttl=True))


def race(key, counter, order, callers, times, pauseMs, restMs):
    failures = []

    def caller():
        try:
            for _ in range(times):
                with client.lock(key, timeout=30, sleep=0.02):
                    value = int(client.get(counter) or 0)
                    time.sleep(seconds(pauseMs))
                    client.set(counter, value + 1)
                    client.rpush(order, "theirs")
                time.sleep(random.random() * seconds(restMs))
        except Exception:
            failures.append(traceback.format_exc())

    threads = [threading.Thread(target=caller) for _ in range(callers)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if failures:
        raise RuntimeError("\n".join(failures))


def owned(action):
    try:
        action()
        return True
    except LockNotOwnedError:
        return False


COMMANDS = {"acquire": acquire, "release": release, "extend": extend, "race": race}


def answer(line):
    order = json.loads(line)
    reply = {"id": order.pop("id")}
    try:
        reply["result"] = COMMANDS[order.pop("command")](**order)
    except Exception:
        reply["error"] = traceback.format_exc()
    with output:
        print(json.dumps(reply), flush=True)


for line in sys.stdin:
    threading.Thread(target=answer, args=(line,), daemon=True).start()
