-- A transfer that nothing on its chain binds to a payment, and that its merchant said is for one.

ALTER TABLE transfers ADD COLUMN assigned INTEGER NOT NULL DEFAULT 0;
