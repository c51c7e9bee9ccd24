"""The guard: every Python process of a training image loads it, and it ends a training of the wrong world size.

A training whose ranks do not meet does not fail: each node trains alone, and the job "completes". Before the first
step, the guard compares the achieved world size with the one that the job asks for; a training of the wrong size ends
in seconds, with exit code 78 and a message. The user's program is not changed.

`start` runs in every process and must cost nothing; the other modules are imported when torch is.
"""
