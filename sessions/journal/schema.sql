-- The journal, as SQLite has it; `postgres.py` takes its own types for REAL, INTEGER and BLOB. Times are seconds since 1970.
-- A change here needs a version in `versions.py`.
CREATE TABLE IF NOT EXISTS versions (
    number INTEGER NOT NULL         -- of the journal; one row
);
CREATE TABLE IF NOT EXISTS identity (
    id TEXT NOT NULL,               -- drawn when the journal was made; one row; `journal.id` beside the weights says the same
    saved REAL,                     -- when this copy of a journal was made; NULL in a journal
    number INTEGER NOT NULL DEFAULT 0 -- rises at each start and end of a Gateway; `journal.id` says how far it was
);
CREATE TABLE IF NOT EXISTS leases (
    name TEXT PRIMARY KEY,          -- 'engines': whoever holds it executes what is in the journal
    holder TEXT NOT NULL,           -- a Gateway, new at each of its starts
    number INTEGER NOT NULL,        -- one more at each change of the holder
    until REAL NOT NULL             -- by the clock of the database
);
CREATE TABLE IF NOT EXISTS keys (
    id TEXT PRIMARY KEY,            -- the first characters of the key, which people may see
    hash TEXT NOT NULL UNIQUE,      -- SHA-256 of the whole key
    tenant TEXT NOT NULL,
    created REAL NOT NULL,
    revoked REAL,
    scopes TEXT NOT NULL DEFAULT 'train,sample,read,admin',
    expires REAL
);
CREATE TABLE IF NOT EXISTS tenants (
    id TEXT PRIMARY KEY             -- whoever counts for a tenant holds the row, so that no other does meanwhile
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
CREATE INDEX IF NOT EXISTS sessions_of ON sessions (tenant, created);
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
CREATE INDEX IF NOT EXISTS models_of ON models (session);
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
    size INTEGER NOT NULL DEFAULT 0,    -- bytes of the body
    UNIQUE (target, seq)
);
CREATE INDEX IF NOT EXISTS waiting ON requests (target, seq) WHERE state = 'waiting';
CREATE INDEX IF NOT EXISTS ended ON requests (finished) WHERE finished IS NOT NULL;
CREATE INDEX IF NOT EXISTS waiting_of ON requests (tenant) WHERE state = 'waiting';
CREATE INDEX IF NOT EXISTS kept_of ON requests (tenant, size) WHERE body IS NOT NULL;
CREATE TABLE IF NOT EXISTS samplers (
    id TEXT PRIMARY KEY,
    session TEXT NOT NULL REFERENCES sessions (id),
    base TEXT NOT NULL,
    path TEXT,                      -- tinker://…, when the weights have a name
    folder TEXT,                    -- of its weights; NULL for the base, and for kind inflight
    model TEXT,                     -- for kind inflight: whose weights
    created REAL NOT NULL,
    clones INTEGER NOT NULL DEFAULT 0,
    answered INTEGER NOT NULL DEFAULT 0     -- samples that have ended
);
CREATE INDEX IF NOT EXISTS samplers_of ON samplers (session);
CREATE INDEX IF NOT EXISTS samplers_from ON samplers (folder);
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
CREATE INDEX IF NOT EXISTS checkpoints_of ON checkpoints (run);
CREATE INDEX IF NOT EXISTS checkpoints_by ON checkpoints (tenant, created);
CREATE INDEX IF NOT EXISTS checkpoints_in ON checkpoints (folder);
CREATE TABLE IF NOT EXISTS events (
    id TEXT PRIMARY KEY,
    tenant TEXT NOT NULL,           -- who may read it
    at REAL NOT NULL,
    event TEXT NOT NULL,            -- RESOURCE_ACTION, such as checkpoint_saved
    details TEXT NOT NULL           -- JSON
);
CREATE INDEX IF NOT EXISTS told ON events (tenant, at);
CREATE INDEX IF NOT EXISTS told_before ON events (at);
CREATE TABLE IF NOT EXISTS usage (
    hour INTEGER NOT NULL,          -- its first second
    session TEXT NOT NULL,
    tenant TEXT NOT NULL,
    base TEXT NOT NULL,
    kind TEXT NOT NULL,             -- training, sampling_prefill, sampling_sample or checkpoint
    amount INTEGER NOT NULL,        -- tokens, or checkpoints
    PRIMARY KEY (hour, session, kind)
);
CREATE INDEX IF NOT EXISTS used ON usage (tenant, hour);
CREATE TABLE IF NOT EXISTS completions (
    sampler TEXT NOT NULL,
    clone INTEGER NOT NULL,         -- of a sampling client: its seq_id divided by a thousand million
    number INTEGER NOT NULL,        -- in the order of their ends, from 1
    request TEXT NOT NULL UNIQUE,
    size INTEGER,                   -- bytes of the result; NULL for a failure
    PRIMARY KEY (sampler, number)
);
CREATE TABLE IF NOT EXISTS layouts (
    target TEXT NOT NULL,           -- a model
    seq INTEGER NOT NULL,           -- of a step since its last snapshot
    layout TEXT NOT NULL,           -- JSON of `engines/layouts`: how it shared passes with other models
    PRIMARY KEY (target, seq)
);
CREATE TABLE IF NOT EXISTS steps (
    target TEXT NOT NULL,           -- a model
    number INTEGER NOT NULL,        -- of its optimizer steps, from 1; the last ones are kept
    tokens INTEGER NOT NULL,        -- of its passes
    metrics TEXT NOT NULL,          -- JSON, by NAME:REDUCTION
    at REAL,                        -- its end; NULL while passes are added
    PRIMARY KEY (target, number)
);
CREATE INDEX IF NOT EXISTS stepped ON steps (at);
