-- Ends holds by time, and grants to waiters (model/promote.rs). `live_hold` is the only other place
-- that ends a hold by time.

local step
step = {
  -- Ends holds whose time is over, a bounded number of them.
  sweep = function()
    if record.count == 0 then return end
    if record.bound > now + record.longest_ttl + CLAIM_WINDOW then
      -- The server's clock went back. Without this, no lease would end before the clock has caught
      -- up with deadlines that it set earlier.
      record.bound, record.cursor, record.running = now, 0, NEVER
    end
    if now < record.bound then return end
    for _ = 1, REAP_BOUND do
      if record.cursor >= record.count then break end
      local deadline = holds.clamp(holds.hold_at(record.cursor))
      if deadline <= now then
        holds.expire(record.cursor)
      else
        record.running = math.min(record.running, deadline)
        record.cursor = record.cursor + 1
      end
    end
    if record.count == 0 then return end
    if record.cursor >= record.count then
      record.bound, record.cursor, record.running = record.running, 0, NEVER
    else
      store.more = 1
    end
  end,

  -- The next token: the server's time, or the ballot of a caller who asks several nodes (0 for
  -- none).
  mint = function(ballot)
    local proposed = now
    -- The clock bounds the ballot from below. Otherwise a server that has forgotten the name would
    -- grant a token that an earlier holder has had.
    if ballot > 0 then proposed = math.max(ballot, now - BALLOT_LEAD) end
    record.last_token = math.max(proposed, record.last_token + 1, TOKEN_EPOCH + 1)
    return record.last_token
  end,

  -- Whether the time in a token that a caller sends is so far ahead that it would spoil all later
  -- tokens.
  is_too_far_ahead = function(token)
    return token > math.max(now, record.last_token) + BALLOT_LEAD
  end,

  -- Raises the token of a hold, and the last token with it.
  raise_token = function(hold, token)
    hold.token = math.max(hold.token, token)
    record.last_token = math.max(record.last_token, hold.token)
  end,

  -- Writes the hold, which ends at `claim_by`, the deadline for its claim. Without a `claim_by`, it
  -- ends after its ttl.
  grant = function(waiter, state, token, claim_by)
    local deadline = claim_by or now + waiter.ttl
    holds.add_hold({
      id = waiter.id, weight = waiter.weight, state = state, token = token, since = now,
      deadline = deadline, ttl = waiter.ttl, nonce = waiter.nonce, facts = waiter.facts,
    })
    holds.keep_until(deadline)
  end,

  send = function(id, payload)
    store.messages[#store.messages + 1] = { id = id, payload = payload }
  end,

  send_granted = function(hold)
    step.send(hold.id, struct.pack(GRANT_MESSAGE, 'G', holds.attempt_of(hold.id), hold.nonce,
      hold.token, now, hold.deadline))
  end,

  grant_head = function(head, is_caller, last_seen)
    waiters.leave(head)
    record.capacity = head.capacity
    if is_caller then
      step.grant(head, CLAIMED, step.mint(0), nil)
      return
    end
    -- A silent waiter can claim its grant only until it would count as dead, but for at least one
    -- poll interval. So all dead waiters together cost one claim window, and not one each.
    local patience = math.max(last_seen + DEAD_AFTER, now + POLL_INTERVAL)
    local claim_by = math.min(patience, now + math.min(CLAIM_WINDOW, head.ttl))
    step.grant(head, UNCLAIMED, step.mint(0), claim_by)
    step.send_granted(holds.hold_at(record.count - 1))
  end,

  -- Grants to waiters in their order until one does not fit, and skips dead waiters. `caller` is
  -- the attempt on whose behalf the step runs. It is alive, so its grant is confirmed immediately,
  -- without a message.
  promote = function(caller)
    local skipped, grants = 0, 0
    while record.waiting > 0 do
      local head, is_caller = waiters.linked(record.queue.head), record.queue.head == caller
      local last_seen = waiters.seen(holds.client_of(head.id))
      if not is_caller and last_seen + DEAD_AFTER <= now then
        if skipped == SKIP_BOUND then
          store.more = 1
          return
        end
        skipped = skipped + 1
        waiters.leave(head)
      else
        if not holds.fits(head.weight, head.capacity) then return end
        if grants == GRANT_BOUND then
          store.more = 1
          return
        end
        grants = grants + 1
        step.grant_head(head, is_caller, last_seen)
      end
    end
  end,

  -- Records that the client of a waiter is alive, and grants to the waiter if it is next.
  wait_on = function(waiter, ttl)
    waiters.see(holds.client_of(waiter.id))
    step.promote(waiter.id)
    local index = holds.hold_of(waiter.id)
    if index then return holds.confirm(index, ttl) end
    return waiters.place(waiter)
  end,
}
