// Document 000, the examples of the object collectives on three ranks: lists of mixed types.
#include <dlaunch/any.h>
#include <dlaunch/object.h>

#include <map>

#include "tests/reference/printed.h"

using namespace reference;

namespace {

using Objects = std::vector<dist::Any>;

const Objects any_picklable_object = {"foo", 12, std::map<int, int>{{1, 2}}};
const Objects nones = {nullptr, nullptr, nullptr};

void broadcast_object_list() {
  Objects objects = dist::get_rank() == 0 ? any_picklable_object : nones;
  dist::broadcast_object_list(objects, 0);
  expect(to_string(objects), "['foo', 12, {1: 2}]");
}

void all_gather_object(std::size_t rank) {
  const Objects output = dist::all_gather_object(any_picklable_object[rank]);
  expect(to_string(output), "['foo', 12, {1: 2}]");
}

void gather_object(std::size_t rank) {
  const Objects output = dist::gather_object(any_picklable_object[rank], 0);
  if (rank == 0) expect(to_string(output), "['foo', 12, {1: 2}]");
}

// "Can be any list on non-src ranks, elements are not used."
void scatter_object_list() {
  const Objects objects = dist::get_rank() == 0 ? any_picklable_object : nones;
  const Objects output_list = {dist::scatter_object_list(objects, 0)};
  expect_by_rank(to_string(output_list), {"['foo']", "[12]", "[{1: 2}]"});
}

}  // namespace

int main() {
  return run([](int rank, int) {
    broadcast_object_list();
    all_gather_object(static_cast<std::size_t>(rank));
    gather_object(static_cast<std::size_t>(rank));
    scatter_object_list();
  });
}
