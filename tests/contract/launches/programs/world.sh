#!/bin/sh
exec python world.py
