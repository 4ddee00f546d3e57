{#
Keyed hash as person-etl makes it (erasure_subject.subject_hash), lowercase hex: HMAC-SHA256 of a text, with
var('person_etl_erasure_key') as the key.
#}
{% macro hmac_sha256(text) -%}
    {%- set key = var('person_etl_erasure_key').encode('utf-8').hex() -%}
    {%- if key | length > 128 -%}
        {{ exceptions.raise_compiler_error('person_etl_erasure_key is longer than 64 bytes.') }}
    {%- endif -%}
    {%- set block = key.ljust(128, '0') -%}
    {%- set inner = xor_bytes(block, '32107654ba98fedc', '67452301efcdab89') -%}
    {%- set outer = xor_bytes(block, '54761032dcfe98ba', 'cdef89ab45670123') -%}
    {{- return(adapter.dispatch('nested_sha256', 'person_etl')(inner, outer, text)) -}}
{%- endmacro %}

{# Replaces the high and the low digit of each byte of a hex text: 3 and 6 (or 5 and c), combined by XOR. #}
{% macro xor_bytes(hex, high, low) -%}
    {%- set digits = [] -%}
    {%- for digit in hex -%}
        {%- do digits.append((high if loop.index0 is even else low)['0123456789abcdef'.index(digit)]) -%}
    {%- endfor -%}
    {{- return(digits | join) -}}
{%- endmacro %}

{# Hash of `outer` and the hash of `inner` and the text; both are hex. #}
{% macro default__nested_sha256(inner, outer, text) -%}
encode(sha256(decode('{{ outer }}', 'hex') || sha256(decode('{{ inner }}', 'hex') || convert_to({{ text }}, 'UTF8'))), 'hex')
{%- endmacro %}

{% macro bigquery__nested_sha256(inner, outer, text) -%}
to_hex(sha256(concat(from_hex('{{ outer }}'), sha256(concat(from_hex('{{ inner }}'), cast({{ text }} as bytes))))))
{%- endmacro %}

{% macro duckdb__nested_sha256(inner, outer, text) -%}
sha256(unhex('{{ outer }}') || unhex(sha256(unhex('{{ inner }}') || encode({{ text }}))))
{%- endmacro %}

{% macro spark__nested_sha256(inner, outer, text) -%}
sha2(concat(unhex('{{ outer }}'), unhex(sha2(concat(unhex('{{ inner }}'), encode({{ text }}, 'UTF-8')), 256))), 256)
{%- endmacro %}

{# ID of the key as in erasure_subject.key_id. #}
{% macro erasure_key_id() -%}
    {%- set text = dbt.string_literal('person-etl erasure key ' ~ var('person_etl_erasure_key')) -%}
    {{- return(adapter.dispatch('key_id', 'person_etl')(text)) -}}
{%- endmacro %}

{% macro default__key_id(text) -%}
left(encode(sha256(convert_to({{ text }}, 'UTF8')), 'hex'), 16)
{%- endmacro %}

{% macro bigquery__key_id(text) -%}
left(to_hex(sha256({{ text }})), 16)
{%- endmacro %}

{% macro duckdb__key_id(text) -%}
left(sha256({{ text }}), 16)
{%- endmacro %}

{% macro spark__key_id(text) -%}
left(sha2({{ text }}, 256), 16)
{%- endmacro %}
