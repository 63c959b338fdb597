package pg

// Unhurried makes the transaction of a statement commit without waiting for the disk. The statement
// must select from it. After a crash of PostgreSQL the buckets may be a second old, which is harmless.
// So a flood of refused requests does not fill the disk's queue, in which payments wait.
const Unhurried = `set_config('synchronous_commit', 'off', true)`
