-- What belongs to whom, for ownership.py: one line for each agent and thing.
CREATE TABLE owns (
    agent TEXT NOT NULL, -- the first part of the asker's name: `support` stands for `support/night` too
    kind  TEXT NOT NULL, -- what it is: customer, project
    id    TEXT NOT NULL,
    PRIMARY KEY (agent, kind, id)
) WITHOUT ROWID;

-- Examples; put your own in their place.
INSERT INTO owns (agent, kind, id) VALUES
    ('support', 'customer', 'c-1001'),
    ('support', 'customer', 'c-1002'),
    ('sales', 'customer', 'c-2001');
