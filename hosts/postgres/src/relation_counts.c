/*
 * What registered scans have found and read of each relation, in all databases.
 *
 * There is room for COUNTED_RELATIONS. When it is used up, the relation that was read least gives
 * its place to the next, and its counts go to those of all others. Who comes so begins with the
 * weight of who goes, and not with its counts: a relation that has more than a COUNTED_RELATIONS-th
 * part of all reads is then always among those that stay.
 * Source: Metwally, Agrawal, El Abbadi: Efficient computation of frequent and top-k elements in
 * data streams, ICDT 2005 (Space-Saving).
 *
 * A relation that is dropped leaves its place when the transaction commits; also all of a database.
 *
 * Cost: the lock and a walk over the places for each flush (registration.c), which is once in a
 * scan or in 1024 blocks; 20 KiB.
 */
#include "pg_pagecast.h"

#include "access/xact.h"
#include "catalog/objectaccess.h"
#include "catalog/pg_class.h"
#include "catalog/pg_database.h"
#include "miscadmin.h"
#include "utils/memutils.h"
#include "utils/syscache.h"

static object_access_hook_type next_object_access = NULL;
/* Oids of what this transaction drops, in its own memory. */
static List *dropped_relations = NIL;
static List *dropped_databases = NIL;

static void
add(RelationCounts *to, const RelationCounts *more)
{
	to->hits += more->hits;
	to->reads += more->reads;
	to->saved += more->saved;
}

/* Under the lock: where a relation is counted; NULL if it is not. */
static RelationCounts *
find(Oid database, Oid relation)
{
	for (uint32 i = 0; i < shared->counted_relations; i++)
	{
		if (shared->relations[i].relation == relation && shared->relations[i].database == database)
			return &shared->relations[i];
	}
	return NULL;
}

/* Under the lock: a place for a relation that has none. */
static RelationCounts *
give_place(Oid database, Oid relation)
{
	RelationCounts *place = &shared->relations[0];

	if (shared->counted_relations < COUNTED_RELATIONS)
	{
		place = &shared->relations[shared->counted_relations++];
		place->weight = 0;
	}
	else
	{
		for (int i = 1; i < COUNTED_RELATIONS; i++)
		{
			if (shared->relations[i].weight < place->weight)
				place = &shared->relations[i];
		}
		add(&shared->other_relations, place);
	}
	*place = (RelationCounts) {.database = database, .relation = relation, .weight = place->weight};
	return place;
}

/* Adds to the counts of a relation of this database. */
void
relation_counts_add(Oid relation, uint64 hits, uint64 reads, uint64 saved)
{
	RelationCounts more = {.hits = hits, .reads = reads, .saved = saved};
	RelationCounts *counts;

	LWLockAcquire(shared->lock, LW_EXCLUSIVE);
	counts = find(MyDatabaseId, relation);
	if (counts == NULL)
		counts = give_place(MyDatabaseId, relation);
	add(counts, &more);
	counts->weight += hits + reads;
	LWLockRelease(shared->lock);
}

/* A copy of all, that of the others at the end; how many. */
uint32
relation_counts_copy(RelationCounts *copy)
{
	uint32		count;

	LWLockAcquire(shared->lock, LW_SHARED);
	count = shared->counted_relations;
	memcpy(copy, shared->relations, count * sizeof(RelationCounts));
	copy[count] = shared->other_relations;
	LWLockRelease(shared->lock);
	return count + 1;
}

/* Under the lock. */
void
relation_counts_clear(void)
{
	shared->counted_relations = 0;
	memset(&shared->other_relations, 0, sizeof(shared->other_relations));
}

/* A relation of a database, or with InvalidOid all of them, is no more. */
static void
forget(Oid database, Oid relation)
{
	LWLockAcquire(shared->lock, LW_EXCLUSIVE);
	for (uint32 i = shared->counted_relations; i-- > 0;)
	{
		RelationCounts *counts = &shared->relations[i];

		if (counts->database == database && (relation == InvalidOid || counts->relation == relation))
			*counts = shared->relations[--shared->counted_relations];
	}
	LWLockRelease(shared->lock);
}

/* What a savepoint has brought back is still there. */
static void
before_commit(void)
{
	ListCell   *cell;

	foreach(cell, dropped_relations)
	{
		if (!SearchSysCacheExists1(RELOID, ObjectIdGetDatum(lfirst_oid(cell))))
			forget(MyDatabaseId, lfirst_oid(cell));
	}
	foreach(cell, dropped_databases)
	{
		if (!SearchSysCacheExists1(DATABASEOID, ObjectIdGetDatum(lfirst_oid(cell))))
			forget(lfirst_oid(cell), InvalidOid);
	}
}

static void
transaction_event(XactEvent event, void *argument)
{
	if (event == XACT_EVENT_PRE_COMMIT || event == XACT_EVENT_PRE_PREPARE)
		before_commit();
	else
		dropped_relations = dropped_databases = NIL;
}

static bool
is_counted(Oid relation)
{
	bool		counted;

	LWLockAcquire(shared->lock, LW_SHARED);
	counted = find(MyDatabaseId, relation) != NULL;
	LWLockRelease(shared->lock);
	return counted;
}

static void
object_access(ObjectAccessType access, Oid class, Oid object, int part, void *argument)
{
	static bool listens = false;
	MemoryContext before;

	if (next_object_access)
		next_object_access(access, class, object, part, argument);
	if (access != OAT_DROP || part != 0 || !pagecast_loaded() ||
		(class != DatabaseRelationId && !(class == RelationRelationId && is_counted(object))))
		return;
	if (!listens)
		RegisterXactCallback(transaction_event, NULL);
	listens = true;
	before = MemoryContextSwitchTo(TopTransactionContext);
	if (class == DatabaseRelationId)
		dropped_databases = lappend_oid(dropped_databases, object);
	else
		dropped_relations = lappend_oid(dropped_relations, object);
	MemoryContextSwitchTo(before);
}

void
relation_counts_install_hook(void)
{
	next_object_access = object_access_hook;
	object_access_hook = object_access;
}
