/*
 * What cooperative scans were handed: the counters of pg_pagecast_stats, and for EXPLAIN how many
 * chunks the queries of each session got, those of their parallel workers too.
 *
 * A worker counts for the leader of its lock group, so the leader needs no scan of its own under
 * its Gather, and nobody has to ask a worker before it goes. A session compares the counts before
 * and after a query. They are never set back.
 *
 * Cost: six atomic additions a chunk. Bytes: 16 for each of max_connections and its like.
 */
#include "pg_pagecast.h"

#include "miscadmin.h"
#include "storage/ipc.h"
#include "storage/proc.h"
#include "storage/shmem.h"

typedef struct SessionChunks
{
	pg_atomic_uint64 chunks;
	pg_atomic_uint64 shared;
} SessionChunks;

static SessionChunks *session_chunks = NULL;

static Size
needed(void)
{
	return mul_size(sizeof(SessionChunks), MaxBackends);
}

void
chunk_counts_request(void)
{
	RequestAddinShmemSpace(needed());
}

/* With AddinShmemInitLock held. */
void
chunk_counts_start(void)
{
	bool		found;

	session_chunks = ShmemInitStruct("pg_pagecast chunk counts", needed(), &found);
	for (int i = 0; i < MaxBackends && !found; i++)
	{
		pg_atomic_init_u64(&session_chunks[i].chunks, 0);
		pg_atomic_init_u64(&session_chunks[i].shared, 0);
	}
}

/* Of the session that this process works for; processes that serve none have no place. */
static SessionChunks *
of_this_session(void)
{
	const PGPROC *leader = MyProc->lockGroupLeader ? MyProc->lockGroupLeader : MyProc;
	ptrdiff_t	number = leader - ProcGlobal->allProcs;

	return session_chunks && number < MaxBackends ? &session_chunks[number] : NULL;
}

void
chunk_count(BlockNumber blocks, bool from_others)
{
	SessionChunks *session = of_this_session();

	count(COUNT_CHUNKS, 1);
	if (from_others)
	{
		count(COUNT_CHUNKS_SHARED, 1);
		count(COUNT_BYTES_SPARED, (uint64) blocks * BLCKSZ);
	}
	if (session)
	{
		pg_atomic_fetch_add_u64(&session->chunks, 1);
		pg_atomic_fetch_add_u64(&session->shared, from_others ? 1 : 0);
	}
}

/* So far, by the queries of this session. */
ChunksRead
chunks_read_here(void)
{
	SessionChunks *session = of_this_session();
	ChunksRead	read = {0};

	if (session)
	{
		read.chunks = pg_atomic_read_u64(&session->chunks);
		read.shared = pg_atomic_read_u64(&session->shared);
	}
	return read;
}
