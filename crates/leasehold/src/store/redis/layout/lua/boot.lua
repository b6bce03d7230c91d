-- Computes the rest of a quarantine from the boot record of a server. A quarantine begins if the
-- record is missing, has another run id, or was written before the server's last promotion.
--
-- A server that was a replica for a while has the data of another server. Since its promotion, its
-- second replication id is that of the other server. If the second id is empty, the server was not
-- promoted, or has dropped its backlog since a promotion long ago. The first id cannot serve
-- instead, because it also changes when the first replica connects.
local followed = string.match(redis.call('INFO', 'replication'), 'master_replid2:0*(%x*)') or ''

local function quarantine_left(key, run, span)
  local boot = redis.call('HMGET', key, 'run', 'followed', 'since')
  local since = tonumber(boot[3] or '')
  local was_replica = followed ~= '' and followed ~= boot[2]
  -- If the stored beginning is in the future, the clock was set back. Then the quarantine begins
  -- again now.
  if boot[1] ~= run or was_replica or not (since and since <= now) then
    redis.call('HSET', key, 'run', run, 'followed', followed, 'since', now)
    return span
  end
  return math.max(since + span - now, 0)
end
