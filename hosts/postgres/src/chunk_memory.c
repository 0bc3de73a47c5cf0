/*
 * The part of the pool that cooperative scans have, by chunks.
 *
 * Who reads a chunk says so beforehand (chunk_hold). If the chunks in the pool would be more than
 * cooperation may have, the one that is wanted last leaves. Who wants a chunk last is asked of the
 * predictor, which knows all scans. A chunk that nobody wants any more leaves at once
 * (chunk_release). What leaves is put on the server's list of buffers to be taken first, so the
 * next chunk takes its place, and the clock's hand does not touch other pages.
 *
 * Race: a buffer on the list is like any other, as steering.c says. Only its usage count is set to
 * 0 before, under the header's lock, so that it is taken.
 *
 * Cost: of a chunk that is read one look at up to LOOKS held ones, of one that leaves a look at the
 * buffer table for each of its blocks.
 */
#include "pg_pagecast.h"

#include "miscadmin.h"

/* Chunks compared to find the one that leaves. */
#define LOOKS 64

int			pagecast_cooperation_share = 90;

/* Once, in new shared memory. */
void
chunk_memory_format(void)
{
	shared->chunk_memory.lock = &GetNamedLWLockTranche("pg_pagecast_chunks")->lock;
}

/* Gives the buffer up if it still holds the block and nobody uses it. */
static void
give_up(int buffer, const RelFileLocator *locator, BlockNumber block)
{
	BufferDesc *header = GetBufferDescriptor(buffer);
	uint32		state = LockBufHdr(header);
	RelFileLocator found = tag_locator(&header->tag);
	bool		ours = BUF_STATE_GET_REFCOUNT(state) == 0 && (state & BM_VALID) != 0 && header->tag.blockNum == block &&
		tag_fork(&header->tag) == MAIN_FORKNUM && RelFileLocatorEquals(found, *locator);

	if (ours)
		state &= ~BUF_USAGECOUNT_MASK;
	UnlockBufHdr(header, state);
	if (ours)
		StrategyFreeBuffer(header);
}

static void
release_blocks(const HeldChunk *chunk)
{
	for (BlockNumber i = 0; i < chunk->count; i++)
	{
		int			buffer = buffer_of_block(&chunk->locator, MAIN_FORKNUM, chunk->first + i);

		if (buffer >= 0)
			give_up(buffer, &chunk->locator, chunk->first + i);
	}
}

static inline bool
is_chunk(const HeldChunk *chunk, const RelFileLocator *locator, BlockNumber first)
{
	return chunk->first == first && RelFileLocatorEquals(chunk->locator, *locator);
}

/* Under the lock. */
static HeldChunk *
find_held(const RelFileLocator *locator, BlockNumber first)
{
	ChunkMemory *memory = &shared->chunk_memory;

	for (uint32 i = 0; i < memory->held; i++)
	{
		if (is_chunk(&memory->chunks[i], locator, first))
			return &memory->chunks[i];
	}
	return NULL;
}

/* Under the lock. */
static void
forget(HeldChunk *chunk)
{
	ChunkMemory *memory = &shared->chunk_memory;

	memory->buffers -= chunk->count;
	*chunk = memory->chunks[--memory->held];
}

/* Under the lock: of some held chunks the one that is wanted last, and of several the one that was
 * read longest ago. */
static HeldChunk *
wanted_last(void)
{
	ChunkMemory *memory = &shared->chunk_memory;
	uint64		now = pagecast_now();
	uint64		latest = 0;
	HeldChunk  *last = NULL;

	for (uint32 i = 0; i < Min(memory->held, LOOKS); i++)
	{
		HeldChunk  *chunk = &memory->chunks[(memory->takes + i) % memory->held];
		uint64		wanted = predictor_next_access(predictor, pagecast_relation_name(&chunk->locator), chunk->first, now);

		if (last == NULL || wanted > latest || (wanted == latest && chunk->taken < last->taken))
		{
			last = chunk;
			latest = wanted;
		}
	}
	return last;
}

/* Before these blocks, a chunk, are read: makes room for them where cooperation has its share. */
void
chunk_hold(Relation relation, BlockNumber first, BlockNumber count)
{
	ChunkMemory *memory = &shared->chunk_memory;
	RelFileLocator locator = relation_locator(relation);
	uint64		limit = (uint64) NBuffers * pagecast_cooperation_share / 100;
	HeldChunk  *chunk;

	LWLockAcquire(memory->lock, LW_EXCLUSIVE);
	memory->takes++;
	chunk = find_held(&locator, first);
	while (chunk == NULL && memory->held > 0 && (memory->buffers + count > limit || memory->held == MOST_HELD_CHUNKS))
	{
		HeldChunk  *victim = wanted_last();
		HeldChunk	leaves = *victim;

		forget(victim);
		release_blocks(&leaves);
	}
	if (chunk == NULL)
	{
		chunk = &memory->chunks[memory->held++];
		*chunk = (HeldChunk) {.locator = locator, .first = first, .count = count};
		memory->buffers += count;
	}
	chunk->taken = memory->takes;
	LWLockRelease(memory->lock);
}

/* Nobody wants these blocks, a chunk, any more: their buffers are taken first. */
void
chunk_release(Relation relation, BlockNumber first, BlockNumber count)
{
	ChunkMemory *memory = &shared->chunk_memory;
	HeldChunk	leaves = {.locator = relation_locator(relation), .first = first, .count = count};
	HeldChunk  *chunk;

	LWLockAcquire(memory->lock, LW_EXCLUSIVE);
	chunk = find_held(&leaves.locator, first);
	if (chunk != NULL)
		forget(chunk);
	LWLockRelease(memory->lock);
	release_blocks(&leaves);
}
