// What node-postgres does with a server, on the port that is the argument.

const assert = require('node:assert');
const { Client, types } = require('pg');

const where = { host: '127.0.0.1', port: Number(process.argv[2]), user: 'node', database: 'pagecast' };
// Days as they come, and not as moments of a time zone.
types.setTypeParser(types.builtins.DATE, (day) => day);

async function values(client) {
  const { rows, fields } = await client.query(`SELECT true AS a, 7::smallint AS b, 7::int AS c, 7::bigint AS d,
    0.5::real AS e, 0.1::double precision AS f, 12.340::numeric(10, 3) AS g, 'text' AS h, '\\x01ff'::bytea AS i,
    DATE '2024-02-29' AS j, TIMESTAMPTZ '2024-01-01 00:00:00+00' AS k, INTERVAL '2 days' AS l,
    ARRAY[1, NULL, 3] AS m, ARRAY['a b'] AS n, NULL AS o`);
  const { i, k, l, ...rest } = rows[0];
  assert.deepStrictEqual(rest, {
    a: true, b: 7, c: 7, d: '7', e: 0.5, f: 0.1, g: '12.340', h: 'text', j: '2024-02-29',
    m: ['1', null, '3'], n: ['a b'], o: null,
  });
  assert.deepStrictEqual([...i], [1, 255]);
  assert.strictEqual(k.toISOString(), '2024-01-01T00:00:00.000Z');
  assert.strictEqual(l.days, 2);
  assert.strictEqual(fields[3].dataTypeID, types.builtins.INT8);
}

async function parameters(client) {
  const one = async (sql, ...given) => Object.values((await client.query(sql, given)).rows[0])[0];
  assert.strictEqual(await one('SELECT count(*) FROM nation WHERE n_regionkey = $1', 1), '5');
  assert.strictEqual(await one('SELECT n_name FROM nation WHERE n_name = $1', 'PERU'), 'PERU');
  assert.ok(Number(await one('SELECT count(*) FROM orders WHERE o_orderdate < $1', '1995-06-01')) > 0);
  assert.strictEqual(await one('SELECT count(*) FROM nation WHERE n_nationkey = ANY($1)', [1, 2, 3]), '3');
  assert.deepStrictEqual([...(await one('SELECT $1::bytea', Buffer.from([0, 255])))], [0, 255]);
  assert.strictEqual(await one('SELECT $1::boolean', true), true);
  assert.strictEqual(await one('SELECT $1::int', null), null);
  for (let key = 0; key < 3; key++) {
    const named = { name: 'by key', text: 'SELECT n_nationkey FROM nation WHERE n_nationkey = $1', values: [key] };
    assert.strictEqual((await client.query(named)).rows[0].n_nationkey, String(key));
  }
  const many = await client.query({ text: 'SELECT o_orderkey FROM orders', rowMode: 'array' });
  assert.strictEqual(many.rowCount, 15000);
}

async function errors(client) {
  for (const [sql, code] of [['SELECT * FROM nowhere', '42P01'], ['SELEC 1', '42601'], ['SELECT 1/0', '22012']]) {
    await assert.rejects(client.query(sql), (error) => error.code === code);
  }
}

/** It cancels nothing by itself: another connection does. */
async function cancelling(client) {
  const { pid } = (await client.query('SELECT pg_backend_pid() AS pid')).rows[0];
  assert.strictEqual(pid, client.processID);
  const other = new Client(where);
  await other.connect();
  const long = client.query('SELECT sum(value) FROM generate_series(1, 1000000000000)');
  const begun = new Promise((resolve) => setTimeout(resolve, 300));
  const cancelled = begun.then(() => other.query('SELECT pg_cancel_backend($1::int)', [pid]));
  await assert.rejects(long, (error) => error.code === '57014');
  await cancelled;
  await other.end();
}

(async () => {
  const client = new Client(where);
  await client.connect();
  for (const check of [values, parameters, errors, cancelling]) {
    await check(client);
    console.log(check.name);
  }
  await client.end();
})();
