/** A table as specified in the public contract: its key, then its other columns, in order. */
export interface ContractTable {
  readonly schema: "data" | "ops";
  readonly key: readonly string[];
  readonly columns: readonly string[];
  /** True if rows come from an object of the interface. */
  readonly hasExtra: boolean;
}

const words = (text: string): readonly string[] => text.split(/\s+/u).filter((word) => word !== "");

const data = (key: string, columns: string, hasExtra = false): ContractTable => ({
  schema: "data",
  key: words(key),
  columns: words(columns),
  hasExtra,
});
const ops = (key: string, columns: string, hasExtra = false): ContractTable => ({
  schema: "ops",
  key: words(key),
  columns: words(columns),
  hasExtra,
});

const answered =
  "api_request_id request_completed_at first_matched_at last_matched_at last_matched_service_pid";

/** All tables, written from the contract and not from the code. */
export const contractTables: Readonly<Record<string, ContractTable>> = {
  resolution: data(
    "job source source_key",
    `is_match service_pid match_score is_resolvable_record validation_errors ${answered}`,
    true,
  ),
  enrichment: data(
    "job source source_key",
    `is_match service_pid match_score validation_errors ${answered}`,
    true,
  ),
  match_history: data("job source source_key valid_from", "valid_to is_match service_pid match_score"),
  person_history: data("service_pid field_group valid_from", "valid_to content"),
  email_validation: data(
    "email_address",
    `is_match email_validation_status email_last_seen previous_status status_changed_at api_request_id
     request_completed_at`,
    true,
  ),
  input_email: data("source source_key position", "email_address"),
  person: data(
    "service_pid",
    `full_name first_name middle_name last_name name_suffix
     gender dob age marital_status service_household_id service_spouse_pid number_of_children is_retired
     estimated_income_range estimated_wealth_range home_ownership_status has_bankruptcy_records has_judgment_records
     linkedin_url linkedin_title linkedin_industry linkedin_profile_pic_url is_likely_remote_worker facebook_url
     twitter_url estimated_income_min estimated_income_max estimated_wealth_min estimated_wealth_max _record_synced_at`,
    true,
  ),
  person_email: data("service_pid email_type position", "email_rank email_address", true),
  person_phone: data("service_pid position", "phone_rank phone_type phone_number", true),
  person_relative: data(
    "service_pid position",
    `relative_service_pid relative_first_name relative_last_name relationship_label relationship_sublabel`,
    true,
  ),
  person_address: data(
    "service_pid position",
    `address_rank service_address_id address_line_1 address_line_2 address_city address_state address_zipcode
     address_zipcode4 ownership_status is_current_owner purchase_date purchase_price estimated_current_value
     estimated_rental_value home_current_tax_liability outstanding_loan_principal current_property_equity_amount sqft
     num_beds num_baths first_seen_date last_seen_date purchase_on purchase_precision first_seen_on first_seen_precision
     last_seen_on last_seen_precision`,
    true,
  ),
  person_work_experience: data(
    "service_pid position",
    `experience_rank service_experience_id work_company_name work_company_linkedin_url work_company_website
     work_company_industry work_company_naics_code work_company_naics_description work_company_sic_code
     work_company_sic_description work_title standard_work_title work_seniority_level work_department
     work_employment_type work_status work_start_date work_end_date work_city work_state work_country work_start_on
     work_start_precision work_end_on work_end_precision`,
    true,
  ),
  person_education_experience: data(
    "service_pid position",
    `experience_rank service_experience_id institution_name institution_linkedin_url education_information
     education_level education_start_date education_end_date education_majors education_minors education_start_on
     education_start_precision education_end_on education_end_precision`,
    true,
  ),
  person_pid_alias: data("sent_service_pid returned_service_pid", "first_seen_at"),
  reject: data(
    "reject_id",
    "run_id job source source_key stage code message details api_request_id created_at resolved_at",
  ),
  segment: data(
    "segment_id",
    "name description current_size source is_configured last_checked_at last_complete_sync_at",
  ),
  segment_member: data(
    "segment_id service_pid",
    "first_added_at is_member first_seen_at removed_seen_at",
    true,
  ),
  segment_membership_history: data("segment_id service_pid valid_from", "valid_to valid_from_basis"),
  death_signal: data(
    "obituary_id service_pid",
    `date_of_death publication_last_update_date first_observed_at signal_source signal_obituary_url
     signal_publication_name signal_confidence_score signal_funeral_home signal_city signal_state signal_age_at_death
     signal_survivors signal_service_date signal_memorial_donation_url signal_metadata`,
    true,
  ),
  segment_death_signal: data(
    "segment_id obituary_id service_pid",
    "first_seen_at is_present removed_seen_at",
  ),
  person_search: data("search_id", "search_name query total_count result_count created_at", true),
  person_search_coverage: data("search_id scope channel", "count percent", true),
  person_search_result: data("search_id position", "service_pid"),
  audience_search: data(
    "segment_id",
    `search_name query status materialization_extent created_at updated_at full_criteria_tree error_criteria
     suggested_search total_count estimated_billable_count billable_count results_unlocked error_code error_message`,
    true,
  ),
  audience_search_coverage: data("segment_id channel", "count percentage", true),
  audience_search_distribution: data("segment_id distribution position", "label count percentage", true),
  audience_search_member: data("segment_id service_pid", "position"),
  contact_job: data(
    "job_id",
    `job_type status created_at result_count total_matched results_unlocked error_code message started_at completed_at
     updated_at billable_count unlocked_at`,
    true,
  ),
  contact_job_result: data(
    "job_id position",
    `service_pid matched_job_title current_job_title matched_company_name matched_company_domain
     matched_company_linkedin_url matched_naics_code full_name linkedin_url jacket`,
    true,
  ),
  segment_sync: ops(
    "segment_id run_id",
    "observed_at current_size known_members added removed removals_pending sent push_added redundant push_removed unknown",
  ),
  sync_gap: ops("job stream gap_start", "gap_end noticed_at"),
  warehouse_identity: ops("", "service_host org_id created_at"),
  sync_run: ops(
    "run_id job shard",
    `job_type status limited_by started_at finished_at records_read records_unchanged records_duplicate
     records_suppressed records_sent records_matched records_rejected records_rejected_before_sending records_waiting
     records_remaining rows_written requests retries possibly_billed_twice error`,
  ),
  checkpoint: ops("job stream", "cursor updated_at run_id"),
  api_call: ops(
    "call_id",
    `run_id job endpoint api_request_id started_at request_completed_at milliseconds http_status attempt records_sent
     records_matched response_bytes possibly_billed`,
  ),
  schema_drift: ops("endpoint path kind", "observed_type occurrences first_seen_at last_seen_at"),
  input_coverage: ops(
    "run_id job shard source",
    "input_rows answered matched unmatched rejected due oldest_answer_at",
  ),
};

/** Types that the contract or the interface specifies; all other columns are text. */
export const contractTypes: Readonly<Record<string, readonly string[]>> = {
  boolean: words(
    `resolution.is_match resolution.is_resolvable_record enrichment.is_match match_history.is_match
     email_validation.is_match person.is_retired person.has_bankruptcy_records person.has_judgment_records
     person.is_likely_remote_worker person_address.is_current_owner api_call.possibly_billed
     segment.is_configured segment_member.is_member segment_death_signal.is_present audience_search.results_unlocked contact_job.results_unlocked`,
  ),
  numeric: words(
    `resolution.match_score enrichment.match_score match_history.match_score person.estimated_income_min
     person.estimated_income_max person.estimated_wealth_min person.estimated_wealth_max person_address.purchase_price
     person_address.estimated_current_value person_address.estimated_rental_value
     person_address.home_current_tax_liability person_address.outstanding_loan_principal
     person_address.current_property_equity_amount person_address.sqft person_address.num_beds
     person_address.num_baths death_signal.signal_confidence_score death_signal.signal_age_at_death person_search_coverage.percent audience_search_coverage.percentage audience_search_distribution.percentage`,
  ),
  integer: words(
    `person.age person.number_of_children person_email.email_rank person_phone.phone_rank person_address.address_rank
     person_work_experience.experience_rank person_education_experience.experience_rank sync_run.records_read
     sync_run.records_unchanged sync_run.records_duplicate sync_run.records_suppressed sync_run.records_sent
     sync_run.records_matched sync_run.records_rejected sync_run.records_rejected_before_sending
     sync_run.records_waiting sync_run.records_remaining sync_run.rows_written sync_run.requests sync_run.retries
     sync_run.possibly_billed_twice api_call.milliseconds api_call.http_status api_call.records_sent
     api_call.records_matched api_call.response_bytes schema_drift.occurrences input_coverage.input_rows
     input_coverage.answered input_coverage.matched input_coverage.unmatched input_coverage.rejected
     input_coverage.due segment.current_size segment_sync.current_size segment_sync.known_members segment_sync.added
     segment_sync.removed segment_sync.removals_pending segment_sync.sent segment_sync.push_added segment_sync.redundant segment_sync.push_removed segment_sync.unknown person_search.total_count person_search.result_count person_search_coverage.count audience_search.total_count audience_search.estimated_billable_count audience_search.billable_count audience_search_coverage.count audience_search_distribution.count contact_job.result_count contact_job.total_matched contact_job.billable_count`,
  ),
  position: words(
    `input_email.position person_email.position person_phone.position person_relative.position
     person_address.position person_work_experience.position person_education_experience.position api_call.attempt person_search_result.position audience_search_distribution.position audience_search_member.position contact_job_result.position`,
  ),
  "text[]": words(
    "person_education_experience.education_majors person_education_experience.education_minors",
  ),
  date: words(
    `person.dob death_signal.date_of_death death_signal.publication_last_update_date person_address.purchase_on
     person_address.first_seen_on person_address.last_seen_on person_work_experience.work_start_on
     person_work_experience.work_end_on person_education_experience.education_start_on
     person_education_experience.education_end_on`,
  ),
  timestamp: words("email_validation.email_last_seen"),
  timestamptz: words(
    `resolution.request_completed_at resolution.first_matched_at resolution.last_matched_at
     enrichment.request_completed_at enrichment.first_matched_at enrichment.last_matched_at match_history.valid_from
     match_history.valid_to person_history.valid_from person_history.valid_to email_validation.status_changed_at email_validation.request_completed_at
     person._record_synced_at person_pid_alias.first_seen_at reject.created_at reject.resolved_at
     warehouse_identity.created_at sync_run.started_at sync_run.finished_at checkpoint.updated_at api_call.started_at
     api_call.request_completed_at schema_drift.first_seen_at schema_drift.last_seen_at
     input_coverage.oldest_answer_at segment.last_checked_at segment.last_complete_sync_at
     segment_member.first_added_at segment_member.first_seen_at segment_member.removed_seen_at
     segment_membership_history.valid_from segment_membership_history.valid_to death_signal.first_observed_at
     segment_death_signal.first_seen_at segment_death_signal.removed_seen_at segment_sync.observed_at sync_gap.gap_start
     sync_gap.gap_end sync_gap.noticed_at person_search.created_at audience_search.created_at audience_search.updated_at contact_job.created_at contact_job.started_at contact_job.completed_at contact_job.updated_at contact_job.unlocked_at`,
  ),
  json: words(
    "person_history.content resolution.validation_errors enrichment.validation_errors reject.details checkpoint.cursor death_signal.signal_metadata death_signal.signal_survivors audience_search.full_criteria_tree audience_search.error_criteria contact_job_result.jacket",
  ),
  uuid: words("reject.reject_id api_call.call_id"),
};
