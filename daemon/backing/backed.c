/* SPDX-License-Identifier: MIT */
#include "daemon/backing/backed.h"

int backed_new(Backed **ret, Owner *o, u32 number, const struct record_clock *clock)
{
	Backed *x = calloc(1, sizeof(*x));
	int r;

	if (!x)
		return -ENOMEM;
	r = image_new(&x->image, &(ImageOptions){ .label = o->label,
						  .number = number,
						  .map = o->region.map,
						  .geometry = o->region.geometry,
						  .clock = *clock,
						  .cpus = o->ground->cpus });
	if (r < 0) {
		free(x);
		return r;
	}
	/* every id keeps its meaning: it may be on disk */
	x->owner = owner_ref(o);
	owner_pin(o);
	r = backed_tell(x);
	if (r == 0)
		r = backed_describe(x); /* nobody else has it yet */
	if (r < 0) {
		(void)backed_free(x);
		return r;
	}
	*ret = x;
	return 0;
}

Backed *backed_free(Backed *x)
{
	if (!x)
		return NULL;
	(void)image_free(x->image);
	descriptions_clear(&x->programs);
	if (x->owner) {
		owner_unpin(x->owner);
		(void)owner_unref(x->owner);
	}
	free(x);
	return NULL;
}

void backed_free_all(Backed *first)
{
	for (Backed *next; first; first = next) {
		next = first->next;
		(void)backed_free(first);
	}
}

int backed_tell(Backed *x)
{
	const Ids *ids = &x->owner->ids;

	/* pinned, so that none is taken back; those that were before are given again only when there are no others */
	for (u32 id = ids->n > ABI_ID_MAX ? 1 : MAX(x->n_told, 1u); id < ids->n; id++) {
		const IdEntry *e = ids_entry(ids, id);
		int r;

		if (!e || x->told[id / 64] >> id % 64 & 1)
			continue;
		r = glossary_add(image_glossary(x->image), id, e->class->class);
		if (r < 0)
			return r;
		x->told[id / 64] |= 1ull << id % 64;
	}
	x->n_told = ids->n;
	return 0;
}

bool backed_described(const Backed *x)
{
	return x->n_described == x->owner->described.n_changes;
}

int backed_describe(Backed *x)
{
	Descriptions programs;
	int r = described_copy(&x->owner->described, SIZE_MAX, &programs);

	if (r < 0)
		return r;
	x->n_described = x->owner->described.n_changes;
	descriptions_clear(&x->programs);
	x->programs = programs;
	return 0;
}
