"""A plugin of pytest's: zmq is polled in slices of a second. Seldom a poll misses a kernel's reply
and finds it when its time is up, which was a cell's whole limit."""

from zmq.asyncio import Socket

poll = Socket.poll


async def sliced(self, timeout=None, flags=1):
    left = float("inf") if timeout is None else timeout
    while not (events := await poll(self, min(left, 1000), flags)) and left > 1000:
        left -= 1000
    return events


Socket.poll = sliced
