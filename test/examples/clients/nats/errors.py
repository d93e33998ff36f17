"""Errors of nats-py that the example names."""


class TimeoutError(Exception):
    pass
