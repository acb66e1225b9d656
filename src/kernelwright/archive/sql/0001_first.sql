-- Facts are appended and never changed: the triggers at the end hold every table to that.
-- `body` is the record as JSON (records.encode); the other columns repeat of it what queries ask for.
-- A digest names content. What is told beside the content (a note, a writer, a label, where the user's weights lie)
-- is a form: one row for each way in which the same content was told.

CREATE TABLE problem (
    digest TEXT PRIMARY KEY
) STRICT, WITHOUT ROWID;

CREATE TABLE problem_form (
    seq INTEGER PRIMARY KEY,
    form TEXT NOT NULL UNIQUE,
    digest TEXT NOT NULL REFERENCES problem (digest),
    name TEXT NOT NULL,
    region TEXT,
    dynamic_region TEXT,
    body TEXT NOT NULL
) STRICT;
CREATE INDEX problem_form_digest ON problem_form (digest);
CREATE INDEX problem_form_region ON problem_form (region) WHERE region IS NOT NULL;
CREATE INDEX problem_form_dynamic ON problem_form (dynamic_region) WHERE dynamic_region IS NOT NULL;

CREATE TABLE candidate (
    digest TEXT PRIMARY KEY
) STRICT, WITHOUT ROWID;

CREATE TABLE candidate_form (
    seq INTEGER PRIMARY KEY,
    form TEXT NOT NULL UNIQUE,
    digest TEXT NOT NULL REFERENCES candidate (digest),
    writer TEXT NOT NULL,
    baseline INTEGER NOT NULL,
    body TEXT NOT NULL
) STRICT;
CREATE INDEX candidate_form_digest ON candidate_form (digest);

CREATE TABLE verdict (
    seq INTEGER PRIMARY KEY,
    digest TEXT NOT NULL UNIQUE,
    candidate TEXT NOT NULL REFERENCES candidate (digest),
    problem TEXT NOT NULL REFERENCES problem (digest),
    target TEXT NOT NULL,
    device TEXT NOT NULL,
    environment TEXT NOT NULL,
    judge TEXT NOT NULL,
    status TEXT NOT NULL,
    decisive INTEGER NOT NULL,  -- a rejection, or the end of a confirmation: later passes of a lower stage do not undo it
    confirmed INTEGER NOT NULL,
    speedup REAL,               -- over the fastest baseline of its own run; NULL where nothing was compared
    body TEXT NOT NULL
) STRICT;
CREATE INDEX verdict_pair ON verdict (candidate, problem);
CREATE INDEX verdict_problem ON verdict (problem, device);

CREATE TABLE trial (
    seq INTEGER PRIMARY KEY,
    digest TEXT NOT NULL UNIQUE,
    problem TEXT NOT NULL REFERENCES problem (digest),
    candidate TEXT NOT NULL,    -- most variants of a tuner are never kept as candidates
    body TEXT NOT NULL
) STRICT;
CREATE INDEX trial_problem ON trial (problem, candidate);

CREATE TABLE run (
    id TEXT PRIMARY KEY,
    problem_form TEXT NOT NULL REFERENCES problem_form (form),
    device TEXT NOT NULL,
    started_at REAL NOT NULL
) STRICT;
CREATE INDEX run_started ON run (started_at);

CREATE TABLE run_entry (
    seq INTEGER PRIMARY KEY,
    run TEXT NOT NULL REFERENCES run (id),
    candidate_form TEXT NOT NULL REFERENCES candidate_form (form),
    verdict TEXT NOT NULL REFERENCES verdict (digest),
    UNIQUE (run, candidate_form, verdict)
) STRICT;

CREATE TABLE run_end (
    run TEXT PRIMARY KEY REFERENCES run (id),
    body TEXT NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE event (
    seq INTEGER PRIMARY KEY,
    run TEXT NOT NULL REFERENCES run (id),
    body TEXT NOT NULL
) STRICT;
CREATE INDEX event_run ON event (run);

CREATE TABLE miss (
    seq INTEGER PRIMARY KEY,
    problem_form TEXT NOT NULL REFERENCES problem_form (form),
    device TEXT NOT NULL,
    reason TEXT NOT NULL,
    seen_at REAL NOT NULL
) STRICT;

CREATE TRIGGER problem_keeps BEFORE UPDATE ON problem BEGIN SELECT RAISE(ABORT, 'facts are append-only'); END;
CREATE TRIGGER problem_form_keeps BEFORE UPDATE ON problem_form BEGIN SELECT RAISE(ABORT, 'facts are append-only'); END;
CREATE TRIGGER candidate_keeps BEFORE UPDATE ON candidate BEGIN SELECT RAISE(ABORT, 'facts are append-only'); END;
CREATE TRIGGER candidate_form_keeps BEFORE UPDATE ON candidate_form BEGIN SELECT RAISE(ABORT, 'facts are append-only'); END;
CREATE TRIGGER verdict_keeps BEFORE UPDATE ON verdict BEGIN SELECT RAISE(ABORT, 'facts are append-only'); END;
CREATE TRIGGER trial_keeps BEFORE UPDATE ON trial BEGIN SELECT RAISE(ABORT, 'facts are append-only'); END;
CREATE TRIGGER run_keeps BEFORE UPDATE ON run BEGIN SELECT RAISE(ABORT, 'facts are append-only'); END;
CREATE TRIGGER run_entry_keeps BEFORE UPDATE ON run_entry BEGIN SELECT RAISE(ABORT, 'facts are append-only'); END;
CREATE TRIGGER run_end_keeps BEFORE UPDATE ON run_end BEGIN SELECT RAISE(ABORT, 'facts are append-only'); END;
CREATE TRIGGER event_keeps BEFORE UPDATE ON event BEGIN SELECT RAISE(ABORT, 'facts are append-only'); END;
CREATE TRIGGER miss_keeps BEFORE UPDATE ON miss BEGIN SELECT RAISE(ABORT, 'facts are append-only'); END;
