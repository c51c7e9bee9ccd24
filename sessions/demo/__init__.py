"""`make rl-demo`: a Gateway, a tiny model made on the spot, the `tinker` client, ten steps to a mean reward of 1."""
