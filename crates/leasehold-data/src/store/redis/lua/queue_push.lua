-- Appends an entry, once (model/queue.rs).
--
-- KEYS  see entries.lua
-- ARGV  1, 2 the fence   3 id   4 payload
-- reply now, and one of  'done', result   'fenced', token   'full'   'pending'

local MAX_ENTRIES = 100000 -- entries, as in model/queue.rs

local fenced = install_fence()
if fenced then return fenced end
forget_old()
local reply = known(ARGV[3])
if reply then return reply end
if redis.call('XLEN', KEYS[2]) >= MAX_ENTRIES then return { now, 'full' } end
local place = redis.call('XADD', KEYS[2], '*', 'i', ARGV[3], 'p', ARGV[4])
redis.call('HSET', KEYS[1], 'p' .. ARGV[3], place)
return { now, 'pending' }
