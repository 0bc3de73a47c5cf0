/*
 * What the planner's statistics say of an index scan: how closely the table follows the index, and
 * which part of it the scan will read.
 *
 * Source: Khalaji et al. 2025, section 4.4.3, for the correlation. Which part is not in the paper:
 * the bounds of the scan's keys are looked up in the histogram of the leading column, to which the
 * bin's width is the error (a hundredth of the table by default). Without a histogram, or without
 * bounds, it is the whole.
 *
 * Known only for B-trees on a plain column. A scan of one value of the leading column, or of a list
 * of values, has no bounds that a histogram could tell apart, and is not told of.
 */
#include "pg_pagecast.h"

#include "access/genam.h"
#include "access/stratnum.h"
#include "catalog/pg_am.h"
#include "catalog/pg_index.h"
#include "catalog/pg_statistic.h"
#include "fmgr.h"
#include "utils/lsyscache.h"
#include "utils/syscache.h"

#define NOT_A_BOUND (SK_ISNULL | SK_ROW_HEADER | SK_ROW_MEMBER | SK_SEARCHARRAY | SK_SEARCHNULL | SK_SEARCHNOTNULL | SK_ORDER_BY)

/* How many bounds of the histogram lie in front of a key of an inequality: those that
 * fail `bound > key` or pass `bound < key`. */
static int
rank_in(const AttStatsSlot *histogram, const ScanKeyData *key, bool lower)
{
	int			low = 0,
				high = histogram->nvalues;

	while (low < high)
	{
		int			middle = (low + high) / 2;
		bool		passes = DatumGetBool(FunctionCall2Coll(unconstify(FmgrInfo *, &key->sk_func), key->sk_collation,
															histogram->values[middle], key->sk_argument));

		if (passes != lower)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

/* Narrows the range to the bounds of the keys. False if there are keys that a histogram does not
 * help with. */
static bool
narrow(IndexOrder *order, const AttStatsSlot *histogram, const ScanKeyData *keys, int count)
{
	for (int i = 0; i < count; i++)
	{
		const ScanKeyData *key = &keys[i];
		bool		lower = key->sk_strategy == BTGreaterEqualStrategyNumber || key->sk_strategy == BTGreaterStrategyNumber;
		int			rank;

		if (key->sk_attno != 1 || (key->sk_flags & (SK_ROW_HEADER | SK_SEARCHNOTNULL)) != 0)
			continue;
		if ((key->sk_flags & NOT_A_BOUND) != 0 || key->sk_strategy == BTEqualStrategyNumber)
			return false;
		if (histogram->nvalues < 2)
		{
			order->error = 1;
			continue;
		}
		order->error = 1.0 / (histogram->nvalues - 1);
		rank = rank_in(histogram, key, lower);
		if (lower)
			order->from = Max(order->from, (rank - 1.0) / (histogram->nvalues - 1));
		else
			order->to = Min(order->to, (double) rank / (histogram->nvalues - 1));
	}
	return order->from < order->to;
}

static bool
read_statistics(IndexOrder *order, HeapTuple statistics, const ScanKeyData *keys, int count)
{
	AttStatsSlot numbers,
				histogram = {0};
	bool		known;

	if (get_attstatsslot(&numbers, statistics, STATISTIC_KIND_CORRELATION, InvalidOid, ATTSTATSSLOT_NUMBERS))
	{
		order->correlation = numbers.nnumbers > 0 ? numbers.numbers[0] : 0;
		free_attstatsslot(&numbers);
	}
	(void) get_attstatsslot(&histogram, statistics, STATISTIC_KIND_HISTOGRAM, InvalidOid, ATTSTATSSLOT_VALUES);
	known = narrow(order, &histogram, keys, count);
	free_attstatsslot(&histogram);
	return known;
}

/* Fills in `order` for a scan whose keys are known. False if nothing can be said. */
bool
index_order(IndexOrder *order, Relation index, Relation table, const ScanKeyData *keys, int count, bool backward)
{
	AttrNumber	column = index->rd_index->indkey.values[0];
	HeapTuple	statistics;
	bool		known;

	if (index->rd_rel->relam != BTREE_AM_OID || column <= 0)
		return false;
	statistics = SearchSysCache3(STATRELATTINH, ObjectIdGetDatum(RelationGetRelid(table)), Int16GetDatum(column), BoolGetDatum(false));
	if (!HeapTupleIsValid(statistics))
		return false;
	*order = (IndexOrder) {.to = 1};
	known = read_statistics(order, statistics, keys, count);
	ReleaseSysCache(statistics);
	order->keys_fall = backward != ((index->rd_indoption[0] & INDOPTION_DESC) != 0);
	return known;
}
