/* SPDX-License-Identifier: MIT */
/* Lines of a daemon, read by the next one: the newest counts, what is over is over, and what cannot be is left out alone. */
#include "daemon/restore.h"

#include "daemon/line.h"

#include <glib.h>

#define GEOMETRY                                                                                      \
	" ring_shift=16 sub_shift=12 side_shift=16 side_sub_shift=12 n_ring=4 n_side=2 policy=0 contexts=3"
#define OWNER(number, session)                                                                            \
	"owner number=" number " session=" session " label=user-1 kind=0 uid=1 pid=0 start_time=0 charged=1" \
	" memory=4096 created=5" GEOMETRY
#define PROGRAM(number, more) \
	"program number=" number " pid=10 uid=1 start_time=7 command=sh unit= cookie=00000000000000000100000000000000" more
#define COUNTS " recorded=100 overwritten=1 discarded=2 kept=3"

typedef struct {
	Ledger *ledger;
	Restored r;
} Fixture;

static void up(Fixture *x, gconstpointer unused)
{
	g_assert_cmpint(ledger_new(&x->ledger), ==, 0);
}

static void down(Fixture *x, gconstpointer unused)
{
	restored_clear(&x->r);
	(void)ledger_free(x->ledger);
}

static void say(Fixture *x, const char *line)
{
	g_assert_cmpint(ledger_append(x->ledger, line), ==, 0);
}

static void read_back(Fixture *x)
{
	Ledger *l;

	restored_clear(&x->r);
	g_assert_cmpint(ledger_open(&l, dup(ledger_fd(x->ledger))), ==, 0);
	g_assert_cmpint(restored_read(&x->r, l), ==, 0);
	(void)ledger_free(l);
}

/* "class" of shop:order */
static void say_class(Fixture *x, u32 number, const char *name)
{
	_cleanup_free_ struct event_class *c = calloc(1, sizeof(*c) + 64);
	u8 bytes[CLASS_MAX_BYTES];
	Line l = { 0 };

	c->provider = strcpy((char *)(c + 1), "shop");
	c->name = strcpy(c->provider + 8, name);
	line_begin(&l, "class");
	line_number(&l, "number", number);
	line_number(&l, "uid", 1);
	line_bytes(&l, "class", bytes, class_encode(c, bytes, sizeof(bytes)));
	say(x, l.text);
	line_clear(&l);
}

static void say_session(Fixture *x, const char *name)
{
	g_autofree char *config = g_strdup_printf("config name=%s file=a%%20b line=5 text=x", name);
	g_autofree char *session = g_strdup_printf("session name=%s running=1 slot=3 generation=9" GEOMETRY COUNTS, name);

	say(x, config);
	say(x, session);
}

static u32 n_owners(const Fixture *x)
{
	u32 n = 0;

	for (const RestoredOwner *o = x->r.owners; o; o = o->next)
		n++;
	return n;
}

static void test_all(Fixture *x, gconstpointer unused)
{
	const RestoredOwner *o;
	const RestoredProgram *p;

	say_session(x, "a");
	say(x, "said name=a hash=77");
	say(x, OWNER("1", "a"));
	say(x, OWNER("2", "a") " liar=1 marks=6");
	say_class(x, 5, "order");
	say_class(x, 6, "extra");
	say(x, "ids owner=2 list=1,5,2,6,");
	say(x, PROGRAM("3", " missed=8 failed=9 in=1 active=2"));
	say(x, "due usec=5 session=a trigger=crash reason=r path=/p");
	read_back(x);
	g_assert_cmpuint(x->r.n_damaged, ==, 0);
	g_assert_cmpstr(x->r.sessions->name, ==, "a");
	g_assert_cmpstr(x->r.sessions->file, ==, "a b");
	g_assert_cmpuint(x->r.sessions->said, ==, 77);
	g_assert_true(x->r.sessions->running && x->r.sessions->told && x->r.sessions->planned);
	g_assert_cmpuint(x->r.sessions->slot, ==, 3);
	g_assert_cmpuint(x->r.sessions->past.recorded, ==, 100);
	g_assert_cmpuint(n_owners(x), ==, 2);
	o = x->r.owners->next;
	g_assert_cmpuint(o->remains.number, ==, 2);
	g_assert_true(o->remains.liar);
	g_assert_cmpuint(o->remains.marks, ==, 6);
	g_assert_cmpuint(o->ids->id, ==, 2);
	g_assert_cmpstr(o->ids->class->class->name, ==, "extra");
	g_assert_cmpuint(o->ids->next->id, ==, 1);
	p = x->r.programs;
	g_assert_cmpuint(p->n_places, ==, 2);
	g_assert_true(!p->places[0].active && p->places[1].active);
	g_assert_cmpuint(p->cookie[1], ==, 1);
	g_assert_cmpuint(x->r.last_number, ==, 2);
	g_assert_cmpuint(x->r.last_class, ==, 6);
	g_assert_cmpuint(x->r.last_program, ==, 3);
	g_assert_cmpstr(x->r.due->path, ==, "/p");
}

/* An older or a newer daemon's: what it does not know or does not say. */
static void test_others(Fixture *x, gconstpointer unused)
{
	say(x, "comet name=halley");
	say(x, "config name=a text=x comet=1");
	say(x, "session name=a comet=1 running=0");
	say(x, OWNER("1", "a") " comet=1 tail=");
	say(x, "sessions name=a");
	read_back(x);
	g_assert_cmpuint(x->r.n_damaged, ==, 0);
	g_assert_null(x->r.sessions->file);
	g_assert_false(x->r.sessions->running || x->r.sessions->planned);
	g_assert_true(x->r.sessions->told);
	g_assert_cmpuint(n_owners(x), ==, 1);
}

static void test_newest(Fixture *x, gconstpointer unused)
{
	say_session(x, "a");
	say(x, "session name=a running=0 last_trace=/t" COUNTS);
	say(x, OWNER("1", "a"));
	say(x, OWNER("1", "a") " marks=9");
	say(x, PROGRAM("3", " in=1"));
	say(x, PROGRAM("3", " missed=1"));
	read_back(x);
	g_assert_cmpuint(x->r.n_damaged, ==, 0);
	g_assert_false(x->r.sessions->running);
	g_assert_cmpstr(x->r.sessions->last_trace, ==, "/t");
	g_assert_cmpuint(n_owners(x), ==, 1);
	g_assert_cmpuint(x->r.owners->remains.marks, ==, 9);
	g_assert_cmpuint(x->r.programs->n_places, ==, 0);
	g_assert_null(x->r.programs->next);
}

/* What ends does so in one line; what is said of it behind that is nothing, and no damage. */
static void test_gone(Fixture *x, gconstpointer unused)
{
	say_session(x, "a");
	say_session(x, "b");
	say(x, OWNER("1", "a"));
	say(x, OWNER("2", "a"));
	say(x, OWNER("3", "b"));
	say(x, OWNER("9", "b"));
	say(x, "session name=a running=1 slot=3 generation=9 recorded=300 gone=1" GEOMETRY);
	say(x, PROGRAM("3", ""));
	say(x, PROGRAM("8", ""));
	say(x, "program-gone number=8");
	say(x, "program-gone number=12");
	say(x, "due usec=5 session=a trigger=crash reason=r path=/p");
	say(x, "due-gone usec=5 session=a");
	say(x, "due-gone usec=5 session=a");
	read_back(x);
	g_assert_cmpuint(x->r.n_damaged, ==, 0);
	g_assert_cmpuint(n_owners(x), ==, 3);
	g_assert_cmpuint(x->r.sessions->past.recorded, ==, 300);
	g_assert_null(x->r.due);
	say(x, "session-gone name=b");
	say(x, "session name=b running=0 gone=3");
	say(x, "session name=b running=0 gone=9");
	say(x, "said name=b hash=5");
	say(x, "ids owner=9 list=1,5,");
	say(x, "session-gone name=b");
	read_back(x);
	g_assert_cmpuint(x->r.n_damaged, ==, 0);
	g_assert_cmpuint(n_owners(x), ==, 1);
	g_assert_null(x->r.sessions->next);
	/* numbers that were given are not given again */
	g_assert_cmpuint(x->r.last_number, ==, 9);
	g_assert_cmpuint(x->r.last_program, ==, 12);
}

/* Each of these is one piece that is left out. */
static void test_damaged(Fixture *x, gconstpointer unused)
{
	static const char *const bad[] = {
		"config name=../x text=x",
		"config name=a",
		"config text=x",
		"session running=1",
		"said hash=5",
		"session-gone",
		"owner number=1",
		"owner number=0 session=a label=u kind=0 uid=1 pid=0 start_time=0 charged=1 memory=1 created=5" GEOMETRY,
		"owner number=1 session=a label=../u kind=0 uid=1 pid=0 start_time=0 charged=1 memory=1 created=5" GEOMETRY,
		"owner number=1 session=a label=.u kind=0 uid=1 pid=0 start_time=0 charged=1 memory=1 created=5" GEOMETRY,
		"owner number=1 session=a label=u kind=9 uid=1 pid=0 start_time=0 charged=1 memory=1 created=5" GEOMETRY,
		"owner number=1 session=a label=u kind=1 uid=1 pid=0 start_time=0 charged=1 memory=1 created=5" GEOMETRY,
		"owner number=1 session=a label=u kind=0 uid=1 pid=0 start_time=0 charged=1 memory=1 created=5 ring_shift=63"
		" sub_shift=12 side_shift=16 side_sub_shift=12 n_ring=4 n_side=2 policy=0 contexts=3",
		"class number=5 uid=1 class=00",
		"class number=0 uid=1 class=",
		"class number=5 class=00",
		"ids list=1,2,",
		"program number=1 pid=0 uid=1 start_time=7 command=sh unit= cookie=00000000000000000100000000000000",
		"program number=1 pid=1 uid=1 start_time=7 command=sh unit= cookie=0000",
		"program number=1 pid=1 uid=1 start_time=7 unit= cookie=00000000000000000100000000000000",
		"program-gone",
		"due usec=5 session=a",
		"due-gone session=a",
		"machine of=000000 clock_uuid=00000000000000000000000000000000",
		"machine of=00000000 clock_uuid=00",
	};

	for (size_t i = 0; i < G_N_ELEMENTS(bad); i++) {
		say(x, bad[i]);
		read_back(x);
		if (x->r.n_damaged != i + 1)
			g_error("taken for good: %s", bad[i]);
	}
	g_assert_null(x->r.sessions);
	g_assert_null(x->r.owners);
	g_assert_null(x->r.programs);
	/* and ids that cannot be, of an owner that can */
	say_session(x, "a");
	say(x, OWNER("1", "a"));
	say_class(x, 5, "order");
	say_class(x, 5, "other");
	say(x, "ids owner=1 list=0,5,1,5,70000,5,2,6,3,");
	read_back(x);
	g_assert_cmpuint(x->r.n_damaged, ==, G_N_ELEMENTS(bad) + 2);
	g_assert_cmpuint(x->r.owners->ids->id, ==, 1);
	g_assert_cmpstr(x->r.owners->ids->class->class->name, ==, "order");
	g_assert_null(x->r.owners->ids->next);
}

/* So many that what is found by looking at all of them would not come to an end. */
static void test_many(Fixture *x, gconstpointer unused)
{
	const u32 n = 100000;

	say_session(x, "a");
	for (u32 i = 1; i <= n; i++) {
		g_autofree char *program = g_strdup_printf("program number=%u pid=%u uid=1 start_time=7 command=sh unit= "
							   "cookie=00000000000000000100000000000000 in=1", i, i);

		say(x, program);
	}
	read_back(x);
	g_assert_cmpuint(x->r.n_damaged, ==, 0);
	g_assert_cmpuint(x->r.last_program, ==, n);
}

int main(int argc, char **argv)
{
	static const struct {
		const char *name;
		void (*test)(Fixture *x, gconstpointer data);
	} tests[] = { { "all", test_all },   { "others", test_others },	  { "newest", test_newest },
		      { "gone", test_gone }, { "damaged", test_damaged }, { "many", test_many } };

	g_test_init(&argc, &argv, NULL);
	for (size_t i = 0; i < G_N_ELEMENTS(tests); i++) {
		char *name = g_strdup_printf("/restore/%s", tests[i].name);

		g_test_add(name, Fixture, NULL, up, tests[i].test, down);
		g_free(name);
	}
	return g_test_run();
}
