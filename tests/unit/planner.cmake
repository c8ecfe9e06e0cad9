strata_test(NAME planner_test
  SOURCES planner_choice_test.cpp planner_cost_test.cpp planner_input_test.cpp planner_property_test.cpp
    planner_search_test.cpp planner_text_test.cpp
  LIBS strata_planner)
strata_test(NAME planner_model_test
  SOURCES planner_model_test.cpp
  LIBS strata_planner strata_model)
