/* SPDX-License-Identifier: MIT */
#include "tests/unit/daemon/checker.h"

#include "daemon/trace/body.h"
#include "daemon/trace/index.h"
#include "daemon/trace/packet.h"

static void check_packet(Checked *sum, const u8 *p, const PacketInfo *info, const ClassTable *table,
			 CheckerRecord fn, void *userdata)
{
	u64 at = PACKET_HEADER, clock = info->begin, before = info->begin;

	/* a CTF reader goes on to the next record while there is content left */
	while (at < info->content_size) {
		struct record r;
		u32 step =
		    record_parse(p + at, ALIGN_UP(info->content_size, 4ull) - at, &clock, &r);

		g_assert_cmpuint(step, >, 0);
		g_assert_cmpuint(at + r.length, <=, info->content_size);
		g_assert_true(class_table_check(table, r.id, r.body, r.body_size));
		g_assert_cmpuint(r.time, >=, before);
		g_assert_cmpuint(r.time, <=, info->end);
		before = r.time;
		sum->first = MIN(sum->first, r.time);
		sum->last = MAX(sum->last, r.time);
		sum->n_records++;
		if (fn)
			fn(userdata, info->stream_instance, &r);
		/* the last byte of the last record is the last of the content */
		if (at + step >= info->content_size)
			g_assert_cmpuint(at + r.length, ==, info->content_size);
		at += step;
	}
}

static void check_stream(Checked *sum, const char *path, const char *name, const ClassTable *table,
			 CheckerRecord fn, void *userdata)
{
	g_autofree char *file = g_build_filename(path, name, NULL);
	g_autofree char *index_name = g_strdup_printf("%s.idx", name);
	g_autofree char *index_file = g_build_filename(path, "index", index_name, NULL);
	g_autofree char *data = NULL, *index = NULL;
	gsize size, index_size;
	u64 at = 0, before = 0, sequence = 0, discarded = 0;
	u8 uuid[16] = {0};
	size_t n;

	g_assert_true(g_file_get_contents(file, &data, &size, NULL));
	g_assert_true(g_file_get_contents(index_file, &index, &index_size, NULL));
	g_assert_cmpint(index_check((u8 *)index, index_size, &n), ==, 0);
	if (size > 20)
		memcpy(uuid, data + 4, 16);
	for (size_t i = 0; i < n; i++) {
		PacketInfo info, said;
		u64 offset;

		g_assert_cmpint(packet_decode(&info, (u8 *)data + at, size - at, uuid), ==, 0);
		index_decode_entry(&offset, &said, (u8 *)index + INDEX_HEADER + i * INDEX_ENTRY);
		said.cpu = info.cpu; /* an index does not say it */
		g_assert_cmpuint(offset, ==, at);
		g_assert_cmpmem(&said, sizeof(said), &info, sizeof(info));
		g_assert_cmpuint(info.begin, >=, before);
		g_assert_cmpuint(info.discarded, >=, discarded);
		if (i > 0)
			g_assert_cmpuint(info.sequence, >, sequence);
		else {
			g_assert_cmpuint(info.sequence, ==, 0);
			/* else readers know that something is missing, but not how much */
			g_assert_cmpuint(info.discarded, ==, 0);
		}
		check_packet(sum, (u8 *)data + at, &info, table, fn, userdata);
		before = info.end;
		sequence = info.sequence;
		discarded = info.discarded;
		at += info.packet_size;
		sum->n_packets++;
	}
	g_assert_cmpuint(at, ==, size);
	sum->discarded += discarded;
	sum->n_streams++;
}

void checker_trace(Checked *sum, const char *path, const TraceClass *classes, size_t n,
		   u32 contexts, CheckerRecord fn, void *userdata)
{
	_cleanup_(class_table_freep) ClassTable *table = NULL;
	g_autoptr(GDir) dir = g_dir_open(path, 0, NULL);
	bool metadata = false;
	const char *name;

	g_assert_nonnull(dir);
	g_assert_cmpint(class_table_new(&table, classes, n, contexts), ==, 0);
	while ((name = g_dir_read_name(dir))) {
		if (g_str_equal(name, "metadata"))
			metadata = true;
		else if (!g_str_equal(name, "index"))
			check_stream(sum, path, name, table, fn, userdata);
	}
	g_assert_true(metadata);
}

void checker_snapshot(Checked *sum, const char *path, const TraceClass *classes, size_t n,
		      u32 contexts, CheckerRecord fn, void *userdata)
{
	g_autoptr(GDir) dir = g_dir_open(path, 0, NULL);
	const char *name;

	g_assert_nonnull(dir);
	*sum = (Checked){.first = UINT64_MAX};
	while ((name = g_dir_read_name(dir))) {
		g_autofree char *trace = g_build_filename(path, name, NULL);

		if (g_str_equal(name, "producers.json"))
			continue;
		checker_trace(sum, trace, classes, n, contexts, fn, userdata);
	}
}
