-- Reads or replaces one value (model/cell.rs).
--
-- KEYS  1 the cell: version `v`, value `d`, tokens `f<lock>`
-- ARGV  1, 2 the fence   3 'read' or 'write'   4 the version it must have, or nothing   5 the value
-- reply now, and one of
--       'changed', version   'fenced', token   'found', version, value   'written', version

local expected = ARGV[4] and ARGV[4] ~= '' and number(4, TIME_MAX)
local fenced = install_fence()
if fenced then return fenced end

local found = redis.call('HMGET', KEYS[1], 'v', 'd')
local version = tonumber(found[1] or '0')
if ARGV[3] == 'read' then return { now, 'found', version, found[2] or '' } end
if expected and expected ~= version then return { now, 'changed', version } end
redis.call('HSET', KEYS[1], 'v', whole(version + 1), 'd', ARGV[5])
return { now, 'written', version + 1 }
