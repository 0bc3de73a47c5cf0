/*
 * Hands out chunks to the processes of cooperative scans, one after the other, and takes them back.
 *
 * Residency: PostgreSQL does not tell what is evicted. What a scan is handed as resident is looked
 * up; if it has gone, that is noted for all, and the scan is handed another.
 *
 * Cost: for each chunk one lock, a choice (core: 6 to 15 us with 1,000 chunks and 100 scans), and
 * some looks at the buffer table.
 */
#include "cooperation.h"

/* How often a scan is handed another chunk because what it was handed has gone. */
#define MOST_TRIES 32

static HeldChunk
chunk_of(const Cooperation *cooperation, uint32 chunk)
{
	return (HeldChunk) {.locator = relation_locator(cooperation->relation), .name = cooperation->name,
		.number = cooperation->number + chunk, .first = chunk * cooperation->size, .count = chunk_blocks(cooperation, chunk)};
}

/* A chunk has left the pool. */
static void
note_left(uint32 name, uint32 number)
{
	cooperation_note(cooperation_manager, name, number, false);
}

/* Under the lock: takes a chunk, unless there is none. */
static bool
take(Cooperation *cooperation, uint64 now, TakenChunk *chunk)
{
	for (int tries = 0;; tries++)
	{
		CooperationTaken taken;
		HeldChunk	held;
		bool		resident;

		/* Where others of this scan have the last chunks, there is nothing left to do here. */
		if (cooperation_take(cooperation_manager, cooperation->member, now, &taken) != TAKE_CHUNK)
			return false;
		resident = chunk_is_resident(cooperation, taken.chunk);
		if (resident != taken.resident)
			cooperation_note(cooperation_manager, cooperation->name, cooperation->number + taken.chunk, resident);
		if (taken.resident && !resident && tries < MOST_TRIES)
		{
			cooperation_give_back(cooperation_manager, cooperation->member, taken.chunk);
			continue;
		}
		held = chunk_of(cooperation, taken.chunk);
		chunk_hold(&held, resident, note_left);
		*chunk = (TakenChunk) {.number = taken.chunk, .resident = resident};
		if (resident)
			cooperating_scan(cooperation->member)->found++;
		return true;
	}
}

/* Under the lock: the chunk that the process has is read. Whether nobody needs it any more. */
static bool
put_down(Cooperation *cooperation, uint32 chunk)
{
	cooperation_note(cooperation_manager, cooperation->name, cooperation->number + chunk, true);
	if (cooperation_is_registered(cooperation))
		cooperation_consumed(cooperation_manager, cooperation->member, chunk);
	return !cooperation_needed(cooperation_manager, cooperation->name, cooperation->number + chunk);
}

/* Under the lock: how many chunks can still be handed out; where the scan is not registered, as one
 * that found no room when it went on, as many as it has. */
static uint32
chunks_left(const Cooperation *cooperation)
{
	CooperationMember view;

	if (!cooperation_is_registered(cooperation) || !cooperation_member(cooperation_manager, cooperation->member, &view))
		return cooperation->chunks;
	return view.left;
}

/* Under the lock: ends the registration with its last chunk. */
static void
end_if_read(Cooperation *cooperation)
{
	CooperationMember view;

	if (cooperation_is_registered(cooperation) && cooperation_member(cooperation_manager, cooperation->member, &view) && view.left + view.out == 0)
		cooperating_scan_end(cooperating_scan(cooperation->member));
}

/* Under the lock: a scan that was suspended registers what it has not had. False if there is no
 * room for it: then it reads its chunks in their order. */
static bool
resume(Cooperation *cooperation, uint64 now)
{
	return cooperation_is_registered(cooperation) || (cooperation->had != NULL && !cooperation->ended && cooperation_register_scan(cooperation, NULL, now));
}

/* Of a scan that found no room when it went on: the first chunk that it has not had. */
static bool
take_alone(Cooperation *cooperation)
{
	for (uint32 chunk = 0; chunk < cooperation->chunks; chunk++)
	{
		if ((cooperation->had[chunk / 64] >> (chunk % 64) & 1) == 0)
		{
			cooperation->held = (TakenChunk) {.number = chunk};
			return true;
		}
	}
	return false;
}

/* Under the lock: the chunk that was taken ahead, or another. */
static bool
take_next(Cooperation *cooperation, uint64 now)
{
	if (cooperation->ahead.number == NO_CHUNK)
		return take(cooperation, now, &cooperation->held);
	cooperation->held = cooperation->ahead;
	cooperation->ahead.number = NO_CHUNK;
	return true;
}

/*
 * Puts down the chunk that the process has, if any, and takes the next one. False if there is none:
 * all have been read, or are being read by other processes of the plan. With `looks_ahead` it takes
 * the one after that, too, so that it can be read ahead: else a device idles while a chunk is
 * processed that does not lie in front of the next one.
 */
bool
cooperation_next(Cooperation *cooperation, bool looks_ahead, BlockNumber *first, BlockNumber *blocks)
{
	uint32		before = cooperation->held.number;
	uint64		now = pagecast_now();
	bool		unwanted = false;
	bool		found = false;

	cooperation->held.number = NO_CHUNK;
	LWLockAcquire(cooperation_state->lock, LW_EXCLUSIVE);
	cooperation_suspend_idle(now);
	if (before != NO_CHUNK)
		unwanted = put_down(cooperation, before);
	/* What was taken ahead went with the registration, and is registered anew. */
	if (!cooperation_is_registered(cooperation))
		cooperation->ahead.number = NO_CHUNK;
	if (resume(cooperation, now))
	{
		pg_atomic_write_u64(&cooperating_scan(cooperation->member)->reached, now);
		found = take_next(cooperation, now);
		if (!found)
			end_if_read(cooperation);
		else if (looks_ahead)
			take(cooperation, now, &cooperation->ahead);
	}
	else if (cooperation->had != NULL && !cooperation->ended)
		found = take_alone(cooperation);
	cooperation->left = chunks_left(cooperation);
	LWLockRelease(cooperation_state->lock);
	registration_suspend_idle(now);
	if (unwanted)
	{
		HeldChunk	chunk = chunk_of(cooperation, before);

		chunk_release(&chunk);
	}
	cooperation->ended = !found;
	if (!found)
		return false;
	if (cooperation->had != NULL)
		cooperation->had[cooperation->held.number / 64] |= UINT64CONST(1) << (cooperation->held.number % 64);
	*first = cooperation->held.number * cooperation->size;
	*blocks = chunk_blocks(cooperation, cooperation->held.number);
	return true;
}

/* The chunk that was taken ahead, if it has to be read. */
bool
cooperation_ahead(const Cooperation *cooperation, BlockNumber *first, BlockNumber *blocks)
{
	uint32		number = cooperation->ahead.number;

	if (number == NO_CHUNK || cooperation->ahead.resident)
		return false;
	*first = number * cooperation->size;
	*blocks = chunk_blocks(cooperation, number);
	return true;
}

/* Within a chunk: the scan moves. `readable`: others do well to follow it now. */
void
cooperation_reach(Cooperation *cooperation, bool readable)
{
	if (readable)
	{
		LWLockAcquire(cooperation_state->lock, LW_EXCLUSIVE);
		cooperation_note(cooperation_manager, cooperation->name, cooperation->number + cooperation->held.number, true);
		LWLockRelease(cooperation_state->lock);
	}
	/* Whoever has the slot by now is not harmed. */
	if (cooperation->member != NO_MEMBER)
		pg_atomic_write_u64(&cooperating_scan(cooperation->member)->reached, pagecast_now());
}

/* Whether a chunk has been handed to this process, or is known to have been handed to another. */
bool
cooperation_had(const Cooperation *cooperation, uint32 chunk)
{
	return cooperation->had != NULL && (cooperation->had[chunk / 64] >> (chunk % 64) & 1) != 0;
}
