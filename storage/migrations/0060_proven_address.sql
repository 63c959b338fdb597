-- +goose Up
-- When it was proven that a member reads the e-mail address: by the link of an invitation or the code of a mail.
-- Only an invitation whose hash is invitation_proof proves it: before this migration owners saw the links.
ALTER TABLE member ADD COLUMN email_proven_at timestamptz, ADD COLUMN invitation_proof bytea;

-- Of the members before, those are proven whom the operator alone invited, or who chose a password by mail.
UPDATE member m SET email_proven_at = clock_timestamp()
FROM (SELECT subject FROM audit_entry WHERE action IN ('member.invited', 'member.password_reset') GROUP BY subject
      HAVING bool_and(actor = 'operator') FILTER (WHERE action = 'member.invited')
          OR bool_or(action = 'member.password_reset')) AS proof
WHERE m.id = proof.subject AND m.password_hash IS NOT NULL;

-- +goose Down
ALTER TABLE member DROP COLUMN invitation_proof, DROP COLUMN email_proven_at;
