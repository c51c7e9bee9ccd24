"""What every Python of a training image loads at its start, and what ends a training of the wrong size.

A training whose ranks do not meet does not fail: each node trains alone, and the job "completes". Here the world size
that a training has is compared with the one that was asked for, before the first step; a training that is too small
ends in seconds, with exit code 78 and a message. The user's program is not touched, and need not know.

`start` runs in every process and must cost nothing; all else is imported when torch is.
"""
