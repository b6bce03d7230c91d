-- The rest of a quarantine, by the boot record of a server: another run id, a promotion that the
-- record does not know, or no record at all begins one.
--
-- A run that was a replica for a while has the data of another server. It has followed that one's
-- replication id since, its second one. Where that is empty the server was not promoted, or so long
-- ago that it has let go of its backlog. The first id would not do: it also changes when a first
-- replica comes.
local function followed_id()
  local id = string.match(redis.call('INFO', 'replication'), 'master_replid2:(%x+)') or ''
  return (string.gsub(id, '^0+$', ''))
end

local function begin(key, run, followed, at)
  redis.call('HSET', key, 'run', run, 'followed', followed, 'since', string.format('%.0f', at))
end

local function quarantine_left(key, run, span)
  local followed = followed_id()
  local boot = redis.call('HMGET', key, 'run', 'followed', 'since')
  local since = tonumber(boot[3] or '')
  local was_replica = followed ~= '' and followed ~= boot[2]
  -- A beginning that lies ahead was written before the clock was set back: it counts from now.
  if boot[1] ~= run or was_replica or not (since and since <= now) then
    begin(key, run, followed, now)
    return span
  end
  return math.max(since + span - now, 0)
end
