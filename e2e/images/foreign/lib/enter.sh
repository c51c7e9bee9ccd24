# Sets up the environment, as entry points do, and runs the program. EXTEND keeps what was there behind it.
export PYTHONPATH="/opt/lib${EXTEND:+:$PYTHONPATH}"
exec "$@"
