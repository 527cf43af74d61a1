#include "dispatch/schema_parser.h"

#include <cstdlib>
#include <string_view>
#include <utility>

#include "core/error.h"

namespace mt {

namespace {

std::string_view trim(std::string_view text) {
    while (!text.empty() && text.front() == ' ') text.remove_prefix(1);
    while (!text.empty() && text.back() == ' ') text.remove_suffix(1);
    return text;
}

bool consume_suffix(std::string_view& text, std::string_view suffix) {
    if (!text.ends_with(suffix)) return false;
    text.remove_suffix(suffix.size());
    return true;
}

Value parse_default(std::string_view text, const ArgSpec& spec) {
    Value value;
    if (text == "None") return value;
    if (text == "True" || text == "False") {
        value.tag = Value::Bool;
        value.i = text == "True";
    } else if (text == "[]") {
        value.tag = Value::Ints;
    } else if (text.find_first_of(".e") != std::string_view::npos) {
        value.tag = Value::Float;
        value.f = std::strtod(std::string(text).c_str(), nullptr);
    } else {
        value.tag = Value::Int;
        value.i = std::strtoll(std::string(text).c_str(), nullptr, 10);
        if (spec.type == ArgType::Float) {
            value.tag = Value::Float;
            value.f = static_cast<double>(value.i);
        }
    }
    return value;
}

ArgSpec parse_arg(std::string_view text) {
    ArgSpec spec;
    size_t equals = text.find('=');
    std::string_view fallback;
    if (equals != std::string_view::npos) {
        fallback = trim(text.substr(equals + 1));
        text = trim(text.substr(0, equals));
        spec.has_default = true;
    }
    size_t space = text.rfind(' ');
    if (space == std::string_view::npos) fail("schema: '" + std::string(text) + "' lacks a type or a name");
    spec.name = std::string(trim(text.substr(space + 1)));
    std::string_view type = trim(text.substr(0, space));
    spec.variadic = consume_suffix(type, "...");
    spec.optional = consume_suffix(type, "?");
    spec.scalar_ok = consume_suffix(type, "|Scalar");
    if (type == "Tensor") spec.type = ArgType::Tensor;
    else if (type == "Tensor[]") spec.type = ArgType::TensorList;
    else if (type == "bool") spec.type = ArgType::Bool;
    else if (type == "int") spec.type = ArgType::Int;
    else if (type == "float") spec.type = ArgType::Float;
    else if (type == "Scalar") spec.type = ArgType::Scalar;
    else if (type == "int[]") spec.type = ArgType::Ints;
    else if (type == "dtype") spec.type = ArgType::DTypeArg;
    else if (type == "device") spec.type = ArgType::DeviceArg;
    else fail("schema: unknown type '" + std::string(type) + "' of argument '" + spec.name + "'");
    if (spec.has_default) spec.default_value = parse_default(fallback, spec);
    spec.interned = PyUnicode_InternFromString(spec.name.c_str());
    return spec;
}

}  // namespace

OpDef parse_schema(const std::string& schema) {
    size_t arrow = schema.find("->"), open = schema.find('('), close = schema.rfind(')', arrow);
    if (open == std::string::npos || close == std::string::npos || close < open)
        fail_value("schema '" + schema + "' is not of the form name(type name, ...)");
    OpDef op;
    op.name = std::string(trim(std::string_view(schema).substr(0, open)));
    op.schema = schema;
    bool keyword_only = false;
    std::string_view rest = std::string_view(schema).substr(open + 1, close - open - 1);
    while (!trim(rest).empty()) {
        size_t comma = rest.find(',');
        std::string_view item = trim(rest.substr(0, comma));
        rest = comma == std::string_view::npos ? std::string_view() : rest.substr(comma + 1);
        if (item == "*") {
            keyword_only = true;
            continue;
        }
        ArgSpec spec = parse_arg(item);
        spec.keyword_only = keyword_only;
        bool operand = spec.type == ArgType::Tensor || spec.type == ArgType::TensorList;
        op.operand_list |= spec.type == ArgType::TensorList;
        (operand ? op.operand_args : op.param_args).push_back(static_cast<uint8_t>(op.args.size()));
        op.args.push_back(std::move(spec));
    }
    if (op.operand_list && op.operand_count() != 1)
        fail_value("schema '" + schema + "': a list of tensors is the only operand");
    if (op.args.size() > kMaxCallArgs || op.param_args.size() > kMaxCallParams)
        fail_value("schema '" + schema + "': at most " + std::to_string(kMaxCallArgs) + " arguments, and " +
                   std::to_string(kMaxCallParams) + " that are not tensors");
    return op;
}

}  // namespace mt
