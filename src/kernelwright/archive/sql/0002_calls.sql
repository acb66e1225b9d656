-- Questions to language models with their answers.

CREATE TABLE call (
    seq INTEGER PRIMARY KEY,
    run TEXT NOT NULL REFERENCES run (id),
    member TEXT NOT NULL,
    body TEXT NOT NULL
) STRICT;
CREATE INDEX call_run ON call (run);

CREATE TRIGGER call_keeps BEFORE UPDATE ON call BEGIN SELECT RAISE(ABORT, 'facts are append-only'); END;
