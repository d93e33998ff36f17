"""The errors of nats-py that examples/submit_job.py uses."""


class TimeoutError(Exception):
    pass
