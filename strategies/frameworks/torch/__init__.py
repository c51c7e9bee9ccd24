"""Plain torch: torchrun or a program that reads MASTER_ADDR; also the base of the frameworks that run on it."""
