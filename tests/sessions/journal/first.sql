-- The journal as the first commit of it made it (a3e0dbf); what such a journal holds is brought forward.
CREATE TABLE IF NOT EXISTS keys (
    id TEXT PRIMARY KEY,            -- the first characters of the key, which people may see
    hash TEXT NOT NULL UNIQUE,      -- SHA-256 of the whole key
    tenant TEXT NOT NULL,
    created REAL NOT NULL,
    revoked REAL
);
CREATE TABLE IF NOT EXISTS sessions (
    id TEXT PRIMARY KEY,
    tenant TEXT NOT NULL,
    created REAL NOT NULL,
    seen REAL NOT NULL,             -- the last heartbeat
    ended REAL,
    status TEXT NOT NULL,           -- JSON, `tinker.types.SessionStatus`
    about TEXT NOT NULL             -- JSON: tags, user_metadata, display_name, project_id, sdk_version
);
CREATE TABLE IF NOT EXISTS models (
    id TEXT PRIMARY KEY,            -- SESSION:train:NUMBER, which the client predicts
    session TEXT NOT NULL REFERENCES sessions (id),
    base TEXT NOT NULL,
    lora TEXT NOT NULL,             -- JSON, `seam.Lora`
    metadata TEXT NOT NULL,         -- JSON
    created REAL NOT NULL,
    used REAL NOT NULL,
    done INTEGER NOT NULL,          -- the last seq that was executed, refused or given up
    snapshot INTEGER NOT NULL,      -- the last seq whose weights and optimizer are on disk; -1 for none
    inflight TEXT,                  -- folder of the weights that sessions of kind inflight sample from
    inflight_old TEXT,              -- the one before, which a sampler may still be reading
    unloaded REAL
);
CREATE TABLE IF NOT EXISTS requests (
    id TEXT PRIMARY KEY,
    tenant TEXT NOT NULL,
    target TEXT NOT NULL,           -- a model or a sampling session
    seq INTEGER NOT NULL,
    kind TEXT NOT NULL,
    digest TEXT NOT NULL,           -- SHA-256 of the body
    body BLOB,                      -- NULL when nothing needs it any more
    state TEXT NOT NULL,            -- waiting, done or failed
    result BLOB,
    form TEXT,                      -- json or protobuf
    category TEXT,                  -- of a failure: user or server
    created REAL NOT NULL,
    finished REAL,
    UNIQUE (target, seq)
);
CREATE INDEX IF NOT EXISTS waiting ON requests (target, seq) WHERE state = 'waiting';
CREATE TABLE IF NOT EXISTS samplers (
    id TEXT PRIMARY KEY,
    session TEXT NOT NULL REFERENCES sessions (id),
    base TEXT NOT NULL,
    path TEXT,                      -- tinker://…, when the weights have a name
    folder TEXT,                    -- of its weights; NULL for the base, and for kind inflight
    model TEXT,                     -- for kind inflight: whose weights
    created REAL NOT NULL,
    clones INTEGER NOT NULL DEFAULT 0
);
CREATE TABLE IF NOT EXISTS checkpoints (
    path TEXT PRIMARY KEY,          -- tinker://RUN/weights/NAME or tinker://RUN/sampler_weights/NAME
    run TEXT NOT NULL,
    tenant TEXT NOT NULL,
    folder TEXT NOT NULL,
    size INTEGER NOT NULL,
    created REAL NOT NULL,
    expires REAL,
    public INTEGER NOT NULL DEFAULT 0,
    metadata TEXT                   -- JSON
);
