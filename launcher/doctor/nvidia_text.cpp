#include "launcher/doctor/nvidia_text.h"

#include <algorithm>

#include "store/base/number.h"
#include "store/base/sanitize.h"
#include "store/base/text.h"

namespace dlaunch::launcher {
namespace {

// A machine has far fewer; what prints more is not nvidia-smi.
constexpr std::size_t most_rows = 256;
constexpr std::size_t most_text = 120;

std::string_view trimmed(std::string_view text) {
  constexpr std::string_view blanks = " \t\r";
  const std::size_t first = text.find_first_not_of(blanks);
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(blanks) - first + 1);
}

std::vector<std::string_view> split(std::string_view text, char at) {
  std::vector<std::string_view> parts;
  for (;;) {
    const std::size_t end = std::min(text.find(at), text.size());
    parts.push_back(text.substr(0, end));
    if (end == text.size()) return parts;
    text.remove_prefix(end + 1);
  }
}

// The numbers are printed as "16", "16 MiB", or "[N/A]".
template <class Number>
std::optional<Number> leading_number(std::string_view text) {
  return parse_number<Number>(text.substr(0, text.find(' ')));
}

std::optional<std::uint64_t> hexadecimal(std::string_view text) {
  if (!text.starts_with("0x")) return std::nullopt;
  return parse_number<std::uint64_t>(text.substr(2), 16);
}

std::optional<bool> switched(std::string_view text) {
  if (text == "Enabled") return true;
  if (text == "Disabled") return false;
  return std::nullopt;
}

std::string kept(std::string_view text) {
  return shortened(std::string(trimmed(sanitize_for_terminal(text))), most_text);
}

void set_field(GpuDevice& gpu, std::string_view field, std::string_view value) {
  if (field == "name") gpu.name = kept(value);
  if (field == "pci.bus_id") gpu.bus_id = short_bus_id(value);
  if (field == "memory.total") gpu.memory_mib = leading_number<std::int64_t>(value);
  if (field == "pcie.link.gen.current") gpu.link_generation = leading_number<int>(value);
  if (field == "pcie.link.gen.max") gpu.most_generation = leading_number<int>(value);
  if (field == "pcie.link.width.current") gpu.link_width = leading_number<int>(value);
  if (field == "pcie.link.width.max") gpu.most_width = leading_number<int>(value);
  if (field == "persistence_mode") gpu.is_persistent = switched(value);
  if (field == "compute_mode") gpu.compute_mode = kept(value);
  if (field == "mig.mode.current") gpu.is_partitioned = switched(value);
  if (field == "ecc.errors.uncorrected.volatile.total")
    gpu.uncorrected_errors = leading_number<std::int64_t>(value);
  if (field == "clocks_event_reasons.active" || field == "clocks_throttle_reasons.active")
    gpu.clock_reasons = hexadecimal(value);
}

bool is_device(std::string_view name) {
  const bool has_prefix = name.starts_with("GPU") || name.starts_with("NIC");
  if (has_prefix) return parse_number<unsigned>(name.substr(3)).has_value();
  // Before driver 515 the columns have the names of the network devices themselves.
  return name.starts_with("mlx");
}

struct Matrix {
  struct Cell {
    std::string row;
    std::string column;
    std::string_view value;
  };
  std::vector<Cell> cells;
};

// The rows and columns that are devices; of `text` without escape sequences.
Matrix matrix_in(std::string_view text) {
  Matrix matrix;
  std::vector<std::string> columns;
  std::size_t rows = 0;
  for (const std::string_view line : split(text, '\n')) {
    const std::vector<std::string_view> cells = split(line, '\t');
    if (cells.size() < 2) continue;
    if (columns.empty()) {
      for (const std::string_view cell : cells) columns.emplace_back(kept(cell));
      if (columns.size() > most_rows || !std::ranges::any_of(columns, is_device)) columns.clear();
      continue;
    }
    const std::string row = kept(cells.front());
    if (!is_device(row) || ++rows > most_rows) continue;
    for (std::size_t i = 1; i < std::min(cells.size(), columns.size()); ++i) {
      if (is_device(columns[i]) && columns[i] != row)
        matrix.cells.push_back({row, columns[i], trimmed(cells[i])});
    }
  }
  return matrix;
}

GpuPath path_from(std::string_view text) {
  if (text.starts_with("NV") && parse_number<unsigned>(text.substr(2))) return GpuPath::nvlink;
  if (text == "PIX") return GpuPath::one_switch;
  if (text == "PXB") return GpuPath::switches;
  if (text == "PHB") return GpuPath::host_bridge;
  if (text == "NODE") return GpuPath::node;
  if (text == "SYS") return GpuPath::sockets;
  return GpuPath::none;
}

// "  NIC0: mlx5_0" of the legend.
void add_nics(std::map<std::string, std::string>& nics, std::string_view text) {
  for (const std::string_view line : split(text, '\n')) {
    const std::size_t colon = line.find(": ");
    if (colon == std::string_view::npos || nics.size() >= most_rows) continue;
    std::string name = kept(line.substr(0, colon));
    if (name.starts_with("NIC") && is_device(name))
      nics.try_emplace(std::move(name), kept(line.substr(colon + 2)));
  }
}

}  // namespace

const std::vector<std::string>& gpu_fields() {
  static const std::vector<std::string> fields{"index",
                                               "name",
                                               "pci.bus_id",
                                               "memory.total",
                                               "pcie.link.gen.current",
                                               "pcie.link.gen.max",
                                               "pcie.link.width.current",
                                               "pcie.link.width.max",
                                               "persistence_mode",
                                               "compute_mode",
                                               "mig.mode.current",
                                               "ecc.errors.uncorrected.volatile.total",
                                               "clocks_event_reasons.active",
                                               "clocks_throttle_reasons.active"};
  return fields;
}

std::vector<GpuDevice> gpus_from_csv(std::string_view text, const std::vector<std::string>& fields) {
  std::vector<GpuDevice> gpus;
  for (const std::string_view line : split(text, '\n')) {
    const std::vector<std::string_view> values = split(line, ',');
    if (values.size() != fields.size() || gpus.size() >= most_rows) continue;
    GpuDevice gpu;
    bool has_index = false;
    for (std::size_t i = 0; i < fields.size(); ++i) {
      const std::string_view value = trimmed(values[i]);
      if (fields[i] != "index") {
        set_field(gpu, fields[i], value);
      } else if (const auto index = parse_number<unsigned short>(value)) {
        gpu.index = *index;
        has_index = true;
      }
    }
    if (has_index) gpus.push_back(std::move(gpu));
  }
  return gpus;
}

std::optional<std::string> rejected_field(std::string_view text) {
  constexpr std::string_view before = "Field \"";
  const std::size_t at = text.find(before);
  if (at == std::string_view::npos) return std::nullopt;
  const std::string_view rest = text.substr(at + before.size());
  const std::size_t end = rest.find("\" is not a valid field");
  if (end == std::string_view::npos) return std::nullopt;
  return kept(rest.substr(0, end));
}

std::vector<GpuProcess> processes_from_csv(std::string_view text) {
  std::vector<GpuProcess> processes;
  for (const std::string_view line : split(text, '\n')) {
    const std::vector<std::string_view> values = split(line, ',');
    if (values.size() != 2 || processes.size() >= most_rows) continue;
    if (const auto pid = parse_number<std::int64_t>(trimmed(values[1])); pid && *pid > 0)
      processes.push_back({short_bus_id(trimmed(values[0])), *pid});
  }
  return processes;
}

GpuTopology topology_from(std::string_view text) {
  const std::string plain = sanitize_for_terminal(text, true);
  GpuTopology topology;
  for (const Matrix::Cell& cell : matrix_in(plain).cells) {
    if (const GpuPath path = path_from(cell.value); path != GpuPath::none)
      topology.paths.insert_or_assign({cell.row, cell.column}, path);
  }
  add_nics(topology.nics, plain);
  return topology;
}

PeerAccess peer_access_from(std::string_view text) {
  const std::string plain = sanitize_for_terminal(text, true);
  PeerAccess access;
  for (const Matrix::Cell& cell : matrix_in(plain).cells) {
    const bool is_known = !cell.value.empty() && cell.value != "U" && cell.value != "X";
    if (is_known) access.insert_or_assign({cell.row, cell.column}, cell.value == "OK");
  }
  return access;
}

std::string last_line_of(std::string_view text) {
  std::string last;
  for (const std::string_view line : split(text, '\n')) {
    if (std::string one = kept(line); !one.empty()) last = std::move(one);
  }
  return last;
}

std::string driver_version(std::string_view text) {
  const std::string_view line = text.substr(0, text.find('\n'));
  for (const std::string_view word : split(line, ' ')) {
    const bool is_version = word.find('.') != std::string_view::npos && word.size() <= most_text &&
                            word.find_first_not_of("0123456789.") == std::string_view::npos;
    if (is_version) return std::string(word);
  }
  return "";
}

bool is_open_driver(std::string_view text) {
  return text.find("Open Kernel Module") != std::string_view::npos;
}

bool has_module(std::string_view modules, std::string_view name) {
  return std::ranges::any_of(split(modules, '\n'),
                             [&](std::string_view line) { return line.substr(0, line.find(' ')) == name; });
}

bool is_excluded(std::string_view information) {
  return std::ranges::any_of(split(information, '\n'), [](std::string_view line) {
    return line.starts_with("GPU Excluded:") && line.find("Yes") != std::string_view::npos;
  });
}

FabricPort fabric_port(std::string_view device, int port, std::string_view state, std::string_view layer,
                       std::string_view rate) {
  const std::size_t colon = state.find(": ");
  const std::string_view word = colon == std::string_view::npos ? state : state.substr(colon + 2);
  return {kept(device), port, kept(layer), kept(word), kept(rate.substr(0, rate.find(" (")))};
}

std::string short_bus_id(std::string_view id) {
  constexpr std::size_t domain = 4;
  const std::size_t colon = id.find(':');
  const bool is_long = colon != std::string_view::npos && colon > domain;
  const std::string_view zeros = id.substr(0, is_long ? colon - domain : 0);
  if (zeros.find_first_not_of('0') == std::string_view::npos) id.remove_prefix(zeros.size());
  return lower(kept(id));
}

}  // namespace dlaunch::launcher
